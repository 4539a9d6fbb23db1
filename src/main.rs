//! The program: the words around the library. It sees only what the library exports.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
