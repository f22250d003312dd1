//! Completions for shells, and manual pages.

use std::fs::create_dir_all;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::CliArguments;
use crate::failure::CommandFailure;

/// The completions of a shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut CliArguments::command(), "tidegate", &mut text);
    text
}

/// Writes a manual page for each command into a folder, which is created if it is missing.
///
/// # Errors
/// A page cannot be written.
pub(crate) fn write_pages(folder: &Path) -> Result<(), CommandFailure> {
    let written = create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(CliArguments::command(), folder));
    written.map_err(|error| {
        let folder = folder.display();
        CommandFailure::NotDone(format!("failed to write manual pages to {folder}: {error}"))
    })
}
