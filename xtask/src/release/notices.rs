//! The licences of the crates in the programs: most ask that their text goes with each copy.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use super::dependency_graph::{CratePackage, DependencyGraph};
use super::io::failed_at;

/// The file in the archive and, compressed, in packages.
pub(crate) const NAME: &str = "THIRD-PARTY-LICENSES";
/// How the names of files with licences begin, in any case.
const FILES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// Returns each text once, below the crates that have it.
pub(crate) fn text(graph: &DependencyGraph) -> Result<String, String> {
    let mut crates_by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    let inside = graph.packages().filter(|one| graph.is_in_programs(one));
    for package in inside.filter(|one| one.source.is_some()) {
        let texts = texts_of(package)?;
        if texts.is_empty() {
            without.push(described(package));
        }
        for text in texts {
            crates_by_text
                .entry(text)
                .or_default()
                .push(package.reference());
        }
    }
    let mut all = String::from(
        "The programs of Tidegate contain the crates below. Each text is the licence, or a notice, of the crates\n\
         above it.\n",
    );
    if !without.is_empty() {
        let names = without.join("\n");
        let _ = writeln!(
            all,
            "\nThese name their licence only, without a text:\n\n{names}"
        );
    }
    for (text, mut crates) in crates_by_text {
        crates.dedup();
        let rule = "-".repeat(80);
        let _ = writeln!(all, "\n{rule}\n{}\n{rule}\n\n{text}", crates.join(", "));
    }
    Ok(all)
}

fn described(package: &CratePackage) -> String {
    let licence = package.license.as_deref().unwrap_or("unknown");
    format!("{}: {licence}", package.reference())
}

/// Returns the texts of licences in the folder of a crate, sorted by the names of their files.
fn texts_of(package: &CratePackage) -> Result<Vec<String>, String> {
    let folder = package.folder();
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed_at(folder))? {
        let path = entry.map_err(failed_at(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_uppercase();
        if path.is_file() && FILES.iter().any(|file| name.starts_with(file)) {
            files.push(path);
        }
    }
    files.sort();
    let read = |path: &PathBuf| {
        let bytes = fs::read(path).map_err(failed_at(path))?;
        let text = String::from_utf8_lossy(&bytes).replace('\r', "");
        Ok(text.trim_end().to_owned())
    };
    files.iter().map(read).collect()
}
