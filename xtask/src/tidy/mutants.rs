//! Each mutant of the list applies to the current sources, and its tests exist.

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};
use crate::mutants::{FOLDER, Mutant, MutantList};

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut list = MutantList::default();
    let mut findings = Vec::new();
    for (area, file) in area_files(tree) {
        if let Err(error) = list.add(area, &file.text) {
            findings.push(TidyFinding::new(&file.path, 1, error));
        }
    }
    for mutant in &list.mutants {
        let problems = problems(tree, mutant);
        findings.extend(
            problems
                .into_iter()
                .map(|problem| finding(tree, mutant, problem)),
        );
    }
    findings
}

fn area_files(tree: &SourceTree) -> impl Iterator<Item = (&str, &SourceFile)> {
    tree.with_extension("toml")
        .filter(|file| {
            file.path
                .strip_prefix(FOLDER)
                .is_some_and(|rest| rest.starts_with('/'))
        })
        .map(|file| (file.stem(), file))
}

fn problems(tree: &SourceTree, mutant: &Mutant) -> Vec<String> {
    let mut problems = Vec::new();
    match tree.get(&mutant.file) {
        None => problems.push(format!("mutant {}: no file {}", mutant.name, mutant.file)),
        Some(file) => {
            problems.extend(mutant.apply(&file.text).err());
            if is_in_tests(&mutant.find, &file.text) {
                problems.push(format!("mutant {}: changes a test", mutant.name));
            }
        }
    }
    for function in mutant.checks.iter().filter_map(|check| check.function()) {
        let definition = format!("fn {function}(");
        if !tree
            .with_extension("rs")
            .any(|file| file.text.contains(&definition))
        {
            problems.push(format!("mutant {}: no test {function}", mutant.name));
        }
    }
    problems
}

/// Whether a mutant changes the unit tests at the end of a file: no test can catch it.
fn is_in_tests(find: &str, text: &str) -> bool {
    let tests = text.find("\n#[cfg(test)]\nmod tests {");
    tests.is_some_and(|tests| text.find(find).is_some_and(|at| at > tests))
}

/// Reports a problem at the line with the mutant's name.
fn finding(tree: &SourceTree, mutant: &Mutant, problem: String) -> TidyFinding {
    let path = format!("{FOLDER}/{}.toml", mutant.area);
    let named = format!("name = \"{}\"", mutant.name);
    let line = tree
        .get(&path)
        .and_then(|file| file.lines().find(|(_, line)| *line == named))
        .map_or(1, |(number, _)| number);
    TidyFinding::new(path, line, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(source: &str, entry: &str) -> Vec<String> {
        let list =
            format!("[[mutant]]\nname = \"one\"\nbreaks = \"It.\"\nfile = \"lua/a.lua\"\n{entry}");
        let tree = SourceTree::from_files(&[
            ("lua/a.lua", source),
            ("tests/tests/store/a.rs", "fn a_test() {}\n"),
            ("tests/mutants/area.toml", &list),
        ]);
        check(&tree).iter().map(TidyFinding::to_string).collect()
    }

    const CHECKS: &str = "checks = [\"cargo test -p tidegate-tests --test store a::a_test\"]\n";

    #[test]
    fn a_mutant_that_applies_is_fine() {
        let entry = format!("find = \"x\"\nreplace = \"y\"\n{CHECKS}");
        assert!(messages("x = 1", &entry).is_empty());
    }

    #[test]
    fn mutants_that_no_longer_apply_are_found() {
        let entry = format!("find = \"x\"\nreplace = \"y\"\n{CHECKS}");
        assert_eq!(
            messages("x = x", &entry),
            [
                "tests/mutants/area.toml:2: `find` of mutant one occurs 2 times in lua/a.lua, must be once"
            ]
        );
        let same = format!("find = \"x\"\nreplace = \"x\"\n{CHECKS}");
        assert_eq!(
            messages("x", &same),
            ["tests/mutants/area.toml:2: mutant one changes nothing"]
        );
    }

    #[test]
    fn a_mutant_of_a_unit_test_is_found() {
        let entry = format!("find = \"x\"\nreplace = \"y\"\n{CHECKS}");
        assert_eq!(
            messages("a = 1\n#[cfg(test)]\nmod tests {\n x\n}\n", &entry),
            ["tests/mutants/area.toml:2: mutant one: changes a test"]
        );
        assert!(messages("x\n#[cfg(test)]\nmod tests {\n}\n", &entry).is_empty());
    }

    #[test]
    fn a_check_without_its_test_and_a_broken_list_are_found() {
        let entry = "find = \"x\"\nreplace = \"y\"\nchecks = [\"cargo test -p tidegate-api --lib a::gone\"]\n";
        assert_eq!(
            messages("x", entry),
            ["tests/mutants/area.toml:2: mutant one: no test gone"]
        );
        assert_eq!(messages("x", "find = \"x\"\n").len(), 1);
    }
}
