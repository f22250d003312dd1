//! Files and other programs, with errors that name them.

use std::path::Path;
use std::process::Command;

/// Names the file in an error.
pub(crate) fn failed_at(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Runs a program to its end and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("failed to run {program}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    Err(format!("{program} failed ({status}): {}", message.trim()))
}
