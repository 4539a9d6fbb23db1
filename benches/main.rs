//! What the store costs beside its bare alternative: rusqlite on the same schema, with the same
//! settings, the bytes copied out. `docs/BENCHMARKS.md` has the numbers and what they are held to.
//!
//! `cargo bench` runs all of it, `cargo bench append` only what has `append` in its name.
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on has failed")]

mod append;
mod entries;
mod import;
mod kit;
mod list;
mod read;
mod size;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    kit::use_folder(folder.path());
    divan::main();
    // What is no time of ours is printed beside the table, unless another part of it is asked for.
    let asked = |name: &str| {
        std::env::args()
            .skip(1)
            .all(|arg| arg.starts_with('-') || name.contains(&arg))
    };
    if std::env::args().any(|arg| arg == "--bench") {
        if asked("read::conversation::sdk") {
            read::print_sdk();
        }
        if asked("size") {
            size::print();
        }
    }
}
