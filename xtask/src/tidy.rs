//! `cargo xtask tidy`: checks the project rules. Violations are printed with file and line.

mod code_names;
mod contracts;
mod docs;
mod finding;
mod guarantees;
mod keys;
mod layers;
mod licences;
mod manifests;
mod modules;
mod mutants;
mod sizes;
mod text;
mod tree;
mod twins;
mod verbs;

use std::process::ExitCode;

use crate::workspace::Workspace;
use finding::TidyFinding;
use tree::SourceTree;

pub(crate) fn run(workspace: &Workspace) -> ExitCode {
    if check_and_print(workspace) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints the violations. Returns whether there are none.
pub(crate) fn check_and_print(workspace: &Workspace) -> bool {
    match check(workspace) {
        Err(error) => {
            println!("tidy failed: {error}");
            false
        }
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            match findings.len() {
                0 => println!("tidy: no violations"),
                1 => println!("tidy: 1 violation"),
                many => println!("tidy: {many} violations"),
            }
            findings.is_empty()
        }
    }
}

fn check(workspace: &Workspace) -> Result<Vec<TidyFinding>, String> {
    let tree = SourceTree::read(workspace.root())?;
    let rules = [
        code_names::check,
        contracts::check,
        docs::check,
        keys::check,
        layers::check,
        manifests::check,
        modules::check,
        mutants::check,
        guarantees::check,
        sizes::check,
        text::check,
        twins::check,
        verbs::check,
    ];
    let mut findings: Vec<_> = rules.iter().flat_map(|rule| rule(&tree)).collect();
    findings.extend(licences::check(&workspace.dependencies()?));
    findings.sort();
    Ok(findings)
}
