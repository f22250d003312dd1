//! `cargo xtask tidy`: the project's own rules, each one small and told with file and line.

mod docs;
mod keys;
mod layers;
mod licences;
mod manifests;
mod mutants;
mod promises;
mod sizes;
mod spdx;
mod text;
mod tree;
mod verbs;

use std::fmt;
use std::process::ExitCode;

use crate::workspace::Workspace;
use tree::Tree;

/// A rule that is broken, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// Lines count from 1.
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

pub(crate) fn run(workspace: &Workspace) -> ExitCode {
    if check_and_print(workspace) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether every rule is kept.
pub(crate) fn check_and_print(workspace: &Workspace) -> bool {
    match check(workspace) {
        Err(error) => {
            println!("tidy could not look: {error}");
            false
        }
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            match findings.len() {
                0 => println!("tidy: every rule is kept"),
                1 => println!("tidy: one rule is broken"),
                many => println!("tidy: rules are broken in {many} places"),
            }
            findings.is_empty()
        }
    }
}

fn check(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let tree = Tree::read(workspace.root())?;
    let rules = [
        docs::check,
        keys::check,
        layers::check,
        manifests::check,
        mutants::check,
        promises::check,
        sizes::check,
        text::check,
        verbs::check,
    ];
    let mut findings: Vec<_> = rules.iter().flat_map(|rule| rule(&tree)).collect();
    findings.extend(licences::check(&workspace.dependencies()?));
    findings.sort();
    Ok(findings)
}
