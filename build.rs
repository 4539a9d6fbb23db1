//! Rebuilds when a migration is added: without this a new file would not be noticed.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
