//! The program: words around the library.

fn main() {}
