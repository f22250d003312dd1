//! Each verb has the same name everywhere, and every script begins with a contract: its inputs and its reply.

use std::collections::BTreeSet;

use super::finding::TidyFinding;
use super::text::has_word;
use super::tree::{SourceFile, SourceTree};

const SCRIPTS: &str = "lua/";
/// The beginning of scripts. Other files are included by them.
const SHEBANG: &str = "#!lua";
const LAYOUT: &str = "docs/redis-layout.md";
const STORE: &str = "crates/store/src/";
/// Arguments that the prelude reads for every script.
const READ_BY_PRELUDE: [u32; 2] = [1, 2];

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let scripts = tree
        .with_extension("lua")
        .filter(|file| file.path.starts_with(SCRIPTS) && file.text.starts_with(SHEBANG));
    scripts
        .flat_map(|script| [check_places(tree, script), check_contract(script)].concat())
        .collect()
}

fn check_places(tree: &SourceTree, script: &SourceFile) -> Vec<TidyFinding> {
    let verb = script.stem();
    let mut findings = Vec::new();
    let mut find = |message: String| findings.push(TidyFinding::new(&script.path, 1, message));
    if !tree
        .get(LAYOUT)
        .is_some_and(|file| has_word(&file.text, verb))
    {
        find(format!("{verb} is not mentioned in {LAYOUT}"));
    }
    // A family of scripts, such as `lease_acquire` and `lease_renew`, may share a file named after it.
    let family = verb.split('_').next().unwrap_or(verb);
    let is_home =
        |file: &SourceFile| file.path.starts_with(STORE) && [verb, family].contains(&file.stem());
    if !tree.with_extension("rs").any(is_home) {
        find(format!("no {verb}.rs below {STORE}"));
    }
    findings
}

fn check_contract(script: &SourceFile) -> Vec<TidyFinding> {
    let header: Vec<_> = script
        .lines()
        .skip(1)
        .take_while(|(_, line)| line.starts_with("--"))
        .collect();
    let first = 2;
    let mut findings = Vec::new();
    let mut find =
        |line: usize, message: String| findings.push(TidyFinding::new(&script.path, line, message));
    let begin = format!("-- {}: ", script.stem());
    if !header
        .first()
        .is_some_and(|(_, line)| line.starts_with(&begin) && line.ends_with('.'))
    {
        find(
            first,
            format!("the contract must begin with `{begin}one sentence.`"),
        );
    }
    if !header
        .iter()
        .any(|(_, line)| line.starts_with("-- Returns "))
    {
        find(first, "the contract has no line `-- Returns …`".to_owned());
    }
    let body: Vec<_> = script.lines().skip(1 + header.len()).collect();
    for table in ["KEYS", "ARGV"] {
        compare(table, &header, &body, first, &mut find);
    }
    findings
}

/// Checks that the contract and the code use the same indices. Code that iterates over the table, as with `ARGV[i]`, is
/// assumed to use all that the contract names.
fn compare(
    table: &str,
    header: &[(usize, &str)],
    body: &[(usize, &str)],
    first: usize,
    find: &mut impl FnMut(usize, String),
) {
    let promised = |line: &str| {
        line.strip_prefix(&format!("-- {table}["))?
            .split_once(']')?
            .0
            .parse()
            .ok()
    };
    let named: Vec<u32> = header
        .iter()
        .filter_map(|(_, line)| promised(line))
        .collect();
    if !named
        .iter()
        .copied()
        .eq(1..=u32::try_from(named.len()).unwrap_or(u32::MAX))
    {
        find(
            first,
            format!("the contract does not name {table}[1], [2] … in order"),
        );
    }
    let mut used = BTreeSet::new();
    let mut is_walked = false;
    for (line, code) in body {
        for index in indices(code, table) {
            match index.parse::<u32>() {
                Ok(number) if !named.contains(&number) => find(
                    *line,
                    format!("the contract does not name {table}[{number}]"),
                ),
                Ok(number) => drop(used.insert(number)),
                Err(_) => is_walked = true,
            }
        }
        is_walked |=
            code.contains(&format!("#{table}")) || code.contains(&format!("unpack({table}"));
    }
    let by_prelude = |number: &u32| table == "ARGV" && READ_BY_PRELUDE.contains(number);
    let unused = named
        .iter()
        .filter(|number| !used.contains(number) && !by_prelude(number) && !is_walked);
    for number in unused {
        find(
            first,
            format!("the contract names {table}[{number}], which the code does not use"),
        );
    }
}

/// Returns the text in the brackets of every `KEYS[…]` of a line.
fn indices<'a>(code: &'a str, table: &str) -> Vec<&'a str> {
    let code = code.split("--").next().unwrap_or_default();
    let begin = format!("{table}[");
    let inside = |(at, _): (usize, &str)| code[at + begin.len()..].split(']').next();
    code.match_indices(&begin).filter_map(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "#!lua\n-- ack: deletes a job.\n-- KEYS[1] lock\n-- ARGV[1] prefix\n-- ARGV[2] now\n\
                        -- ARGV[3] job\n-- Returns ok\n\nreturn redis.call('DEL', KEYS[1], ARGV[3])\n";

    fn found(script: &str) -> Vec<String> {
        let tree = SourceTree::from_files(&[
            ("lua/ack.lua", script),
            ("lua/prelude.lua", "no contract"),
            (LAYOUT, "| ack |"),
            ("crates/store/src/verbs/ack.rs", ""),
        ]);
        check(&tree).iter().map(TidyFinding::to_string).collect()
    }

    #[test]
    fn a_good_script_passes() {
        assert_eq!(found(GOOD), [""; 0]);
    }

    #[test]
    fn a_script_without_document_and_source_is_found() {
        let messages: Vec<_> = check(&SourceTree::from_files(&[("lua/ack.lua", GOOD)]))
            .into_iter()
            .map(|it| it.message)
            .collect();
        assert_eq!(
            messages,
            [
                "ack is not mentioned in docs/redis-layout.md",
                "no ack.rs below crates/store/src/"
            ]
        );
    }

    #[test]
    fn a_family_of_scripts_may_share_a_file() {
        let script = GOOD.replace("ack:", "lease_renew:");
        let tree = SourceTree::from_files(&[
            ("lua/lease_renew.lua", &script),
            (LAYOUT, "| lease_renew |"),
            ("crates/store/src/verbs/lease.rs", ""),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_contract_needs_a_first_sentence_and_a_reply() {
        assert_eq!(
            found(&GOOD.replace("ack:", "nack:")),
            ["lua/ack.lua:2: the contract must begin with `-- ack: one sentence.`"]
        );
        assert_eq!(
            found(&GOOD.replace("-- Returns", "-- Gives")),
            ["lua/ack.lua:2: the contract has no line `-- Returns …`"]
        );
    }

    #[test]
    fn numbers_agree() {
        let unnamed = GOOD.replace("ARGV[3])", "ARGV[3], ARGV[4])");
        assert_eq!(
            found(&unnamed),
            ["lua/ack.lua:9: the contract does not name ARGV[4]"]
        );
        let unused = GOOD.replace("DEL', KEYS[1], ", "DEL', ");
        assert_eq!(
            found(&unused),
            ["lua/ack.lua:2: the contract names KEYS[1], which the code does not use"]
        );
        let gap = GOOD.replace("-- ARGV[2] now\n", "");
        assert_eq!(
            found(&gap),
            ["lua/ack.lua:1: the contract does not name ARGV[1], [2] … in order"]
                .map(|it| it.replace(":1:", ":2:"))
        );
    }

    #[test]
    fn code_that_iterates_over_the_arguments_is_accepted() {
        let walked = GOOD.replace("ARGV[3])", "ARGV[i])");
        assert_eq!(found(&walked), [""; 0]);
    }
}
