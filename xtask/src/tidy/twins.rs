//! Types that describe the same thing: one concept has one type. Two enums with three quarters of their variants in
//! common, or two structs with three quarters of their fields, are twins.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Attribute, Fields, ItemEnum, ItemMod, ItemStruct};

use super::finding::TidyFinding;
use super::modules::is_for_tests;
use super::tree::{SourceFile, SourceTree};

/// Smaller types have the same names by chance.
const VARIANTS_MIN: usize = 4;
const FIELDS_MIN: usize = 5;

/// Twins that stay, with the reason.
const ALLOWED: [(&str, &str, &str); 7] = [
    (
        "SettleCall",
        "Settlement",
        "the name of a call, and a call with its jobs",
    ),
    (
        "SettleCall",
        "SettlementKind",
        "the name of a call, and the message of a relay to its source",
    ),
    (
        "Settlement",
        "SettlementKind",
        "calls about leases of a pool, and about receipts of any source",
    ),
    (
        "PublishedHandle",
        "PublishedJob",
        "users of the client write `job.id` as well as `job.cancel()`",
    ),
    (
        "AddRequest",
        "ShownJob",
        "Youzan's protocol: checked values of a request, and texts of an answer",
    ),
    (
        "ChangedJob",
        "PromotedJob",
        "answers of `/v1` with outcomes of their own",
    ),
    (
        "Policy",
        "PolicyChange",
        "a complete policy, and a change in which each field may be absent",
    ),
];

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut types = Vec::new();
    for file in tree.with_extension("rs") {
        // Types of tests describe what a test reads, in the form of a wire.
        if file.is_test() || file.path.contains("/benches/") {
            continue;
        }
        // `modules` reports files that cannot be parsed.
        if let Ok(parsed) = syn::parse_file(&file.text) {
            let mut found = TypesOfFile {
                file,
                types: Vec::new(),
            };
            found.visit_file(&parsed);
            types.append(&mut found.types);
        }
    }
    let mut findings = Vec::new();
    for (index, one) in types.iter().enumerate() {
        let others = types[index + 1..].iter();
        let twins = others.filter(|other| one.is_twin_of(other) && !is_allowed(one, other));
        findings.extend(twins.map(|other| one.finding(other)));
    }
    findings
}

fn is_allowed(one: &TypeShape<'_>, other: &TypeShape<'_>) -> bool {
    ALLOWED.iter().any(|(left, right, _)| {
        [(&*one.name, &*other.name), (&*other.name, &*one.name)].contains(&(*left, *right))
    })
}

/// A type, and the names of its variants or fields.
struct TypeShape<'a> {
    file: &'a SourceFile,
    keyword: &'static str,
    name: String,
    members: BTreeSet<String>,
}

impl TypeShape<'_> {
    fn is_twin_of(&self, other: &Self) -> bool {
        let most = self.members.len().max(other.members.len());
        let least = match self.keyword {
            "enum" => VARIANTS_MIN,
            _ => FIELDS_MIN,
        };
        let shared = self.members.intersection(&other.members).count();
        self.keyword == other.keyword && most >= least && shared * 4 >= most * 3
    }

    fn finding(&self, other: &Self) -> TidyFinding {
        let definition = format!("{} {}", self.keyword, self.name);
        let mut lines = self.file.text.lines();
        let line = lines.position(|line| line.contains(&definition));
        let message = format!(
            "{} has the {} of {} in {}: make them one type",
            self.name,
            if self.keyword == "enum" {
                "variants"
            } else {
                "fields"
            },
            other.name,
            other.file.path
        );
        TidyFinding::new(&self.file.path, line.map_or(1, |index| index + 1), message)
    }
}

/// The types that a file defines outside its tests.
struct TypesOfFile<'a> {
    file: &'a SourceFile,
    types: Vec<TypeShape<'a>>,
}

impl TypesOfFile<'_> {
    fn add(&mut self, keyword: &'static str, name: String, members: BTreeSet<String>) {
        self.types.push(TypeShape {
            file: self.file,
            keyword,
            name,
            members,
        });
    }
}

/// Flags of two commands may be the same, with defaults of their own.
fn is_command_line(attributes: &[Attribute]) -> bool {
    let mut derives = attributes.iter().filter(|it| it.path().is_ident("derive"));
    derives.any(|derive| {
        let mut has_args = false;
        let _ = derive.parse_nested_meta(|meta| {
            has_args |= meta.path.is_ident("Args");
            Ok(())
        });
        has_args
    })
}

impl Visit<'_> for TypesOfFile<'_> {
    fn visit_item_mod(&mut self, item: &ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        let variants = item.variants.iter().map(|it| it.ident.to_string());
        self.add("enum", item.ident.to_string(), variants.collect());
    }

    fn visit_item_struct(&mut self, item: &ItemStruct) {
        if let Fields::Named(fields) = &item.fields
            && !is_command_line(&item.attrs)
        {
            let names = fields.named.iter().filter_map(|it| it.ident.as_ref());
            let names = names.map(ToString::to_string).collect();
            self.add("struct", item.ident.to_string(), names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_three_quarters_of_their_members_in_common_are_found() {
        let a = (
            "crates/a/src/a.rs",
            "enum End { Done, Lost, Gone, Late }\nstruct Job { a: u8, b: u8, c: u8, d: u8, e: u8 }",
        );
        let b = (
            "crates/b/src/b.rs",
            "enum Outcome { Done, Lost, Gone }\nstruct View { a: u8, b: u8, c: u8, d: u8 }",
        );
        let found = check(&SourceTree::from_files(&[a, b]));
        let found: Vec<String> = found.iter().map(TidyFinding::to_string).collect();
        let expected = [
            "crates/a/src/a.rs:1: End has the variants of Outcome in crates/b/src/b.rs: make them one type",
            "crates/a/src/a.rs:2: Job has the fields of View in crates/b/src/b.rs: make them one type",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn small_types_other_kinds_and_tests_are_no_twins() {
        let a = (
            "crates/a/src/a.rs",
            "enum Switch { On, Off, Auto }\nstruct Job { a: u8, b: u8, c: u8, d: u8, e: u8 }",
        );
        let b = (
            "crates/b/src/b.rs",
            "enum Light { On, Off, Auto }\nstruct Half { a: u8, b: u8, c: u8, x: u8, y: u8 }\n\
             #[cfg(test)]\nmod tests { struct Copy { a: u8, b: u8, c: u8, d: u8, e: u8 } }",
        );
        let c = (
            "tests/tests/c.rs",
            "struct Copy { a: u8, b: u8, c: u8, d: u8, e: u8 }",
        );
        assert!(check(&SourceTree::from_files(&[a, b, c])).is_empty());
    }
}
