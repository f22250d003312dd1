//! Where the daemons' programs are.

use std::path::PathBuf;

/// The program of this name that was built together with the running test: test executables lie in
/// `target/<profile>/deps`, programs one folder up.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the running test has a path");
    let profile = test.ancestors().nth(2).expect("target/<profile>");
    let program = profile.join(name);
    assert!(
        program.is_file(),
        "{} is missing: run `cargo build` first (with the test's profile)",
        program.display()
    );
    program
}
