//! Paths of the daemons' programs.

use std::path::PathBuf;

/// Returns the program with this name from the build of the running test: programs are in
/// `target/<profile>`, test executables in `deps` below it.
pub(crate) fn built(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("the running program has a path");
    let folder = running.parent().expect("target/<profile>");
    let profile = match folder.ends_with("deps") {
        true => folder.parent().expect("target/<profile>"),
        false => folder,
    };
    let program = profile.join(name);
    assert!(
        program.is_file(),
        "{} is missing: run `cargo build` first (with the test's profile)",
        program.display()
    );
    program
}
