//! The list of mutants: `tests/mutants/AREA.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::check::MutantCheck;

/// Folder of the list, relative to the root of the workspace.
pub(crate) const FOLDER: &str = "tests/mutants";

/// A known defect that can be planted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    /// The name of the file that lists it.
    #[serde(skip)]
    pub(crate) area: String,
    pub(crate) name: String,
    /// The broken behaviour, in one sentence.
    pub(crate) breaks: String,
    /// The source file that it changes, relative to the root of the workspace.
    pub(crate) file: String,
    /// The text that it replaces. It occurs in the file exactly once.
    pub(crate) find: String,
    pub(crate) replace: String,
    /// The checks, each of which catches it, the cheapest first.
    pub(crate) checks: Vec<MutantCheck>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AreaFile {
    mutant: Vec<Mutant>,
}

/// All mutants, sorted by area, in the order of their files.
#[derive(Debug, Default)]
pub(crate) struct MutantList {
    pub(crate) mutants: Vec<Mutant>,
}

impl MutantList {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let folder = root.join(FOLDER);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let area = path.file_stem().unwrap_or_default().to_string_lossy();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                files.insert(
                    area.into_owned(),
                    fs::read_to_string(&path).map_err(failed)?,
                );
            }
        }
        let mut list = Self::default();
        for (area, text) in files {
            list.add(&area, &text)
                .map_err(|error| format!("{FOLDER}/{area}.toml: {error}"))?;
        }
        Ok(list)
    }

    /// Adds the mutants of one file.
    pub(crate) fn add(&mut self, area: &str, text: &str) -> Result<(), String> {
        let file: AreaFile = toml::from_str(text).map_err(|error| error.to_string())?;
        for mutant in file.mutant {
            if self.mutants.iter().any(|other| other.name == mutant.name) {
                return Err(format!("two mutants are named {}", mutant.name));
            }
            if mutant.checks.is_empty() {
                return Err(format!("{} has no checks", mutant.name));
            }
            self.mutants.push(Mutant {
                area: area.to_owned(),
                ..mutant
            });
        }
        Ok(())
    }

    /// Returns the mutants with these names and of these areas. An empty list selects all.
    pub(super) fn select(
        &self,
        names: &[String],
        areas: &[String],
    ) -> Result<Vec<&Mutant>, String> {
        let unknown_name = names
            .iter()
            .find(|name| !self.mutants.iter().any(|mutant| mutant.name == **name));
        let unknown_area = areas
            .iter()
            .find(|area| !self.mutants.iter().any(|mutant| mutant.area == **area));
        if let Some(unknown) = unknown_name.or(unknown_area) {
            return Err(format!(
                "no mutant or area is named {unknown}; `cargo xtask mutants --list` shows all"
            ));
        }
        let is_selected = |mutant: &&Mutant| {
            (names.is_empty() || names.contains(&mutant.name))
                && (areas.is_empty() || areas.contains(&mutant.area))
        };
        Ok(self.mutants.iter().filter(is_selected).collect())
    }
}

impl Mutant {
    /// Returns the checks to run: the cheapest, or all.
    pub(super) fn needed_checks(&self, all: bool) -> &[MutantCheck] {
        if all { &self.checks } else { &self.checks[..1] }
    }

    /// Returns the text of the file with this mutant planted.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.find).count() {
            1 if self.find != self.replace => Ok(text.replacen(&self.find, &self.replace, 1)),
            1 => Err(format!("mutant {} changes nothing", self.name)),
            count => Err(format!(
                "`find` of mutant {} occurs {count} times in {}, must be once",
                self.name, self.file
            )),
        }
    }
}

/// Returns the checks that these mutants need, each once.
pub(super) fn checks_of(mutants: &[&Mutant], all: bool) -> Vec<MutantCheck> {
    let mut checks = Vec::new();
    for check in mutants.iter().flat_map(|mutant| mutant.needed_checks(all)) {
        if !checks.contains(check) {
            checks.push(check.clone());
        }
    }
    checks
}
