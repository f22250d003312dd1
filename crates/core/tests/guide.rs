//! The guide to the native API lists all problem codes as the code describes them.
#![allow(clippy::expect_used, reason = "tests fail by panicking")]

use tidegate_core::v1::problem::{Applied, ProblemCode};

const GUIDE: &str = include_str!("../../../docs/api.md");
const HEAD: &str = "| status | code | applied | cause and remedy |\n|---|---|---|---|\n";

#[test]
fn the_guide_has_every_problem_code_with_its_description() {
    let rows = ProblemCode::ALL.iter().map(|info| {
        let applied = match info.applied {
            Applied::No => "no",
            Applied::Yes => "yes",
            Applied::Unknown => "unknown",
        };
        let (status, name, description) = (info.status, info.name, info.description);
        format!("| {status} | `{name}` | {applied} | {description} |\n")
    });
    let table = format!("{HEAD}{}", rows.collect::<String>());
    let begin = GUIDE
        .find(HEAD)
        .expect("docs/api.md has the table of codes");
    let end = begin + GUIDE[begin..].find("\n\n").expect("the end of the table") + 1;
    assert_eq!(
        &GUIDE[begin..end],
        table,
        "docs/api.md should have the second table"
    );
}
