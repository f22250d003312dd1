//! The names of types: no two types of the workspace share one.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Ident, ItemEnum, ItemStruct, ItemTrait, ItemUnion};

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut places = BTreeMap::<String, Vec<(&SourceFile, &str)>>::new();
    for file in tree.with_extension("rs") {
        // `modules` reports files that cannot be parsed.
        let Ok(parsed) = syn::parse_file(&file.text) else {
            continue;
        };
        let mut names = TypeNames::default();
        names.visit_file(&parsed);
        for (keyword, name) in names.0 {
            places.entry(name).or_default().push((file, keyword));
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared
        .map(|(name, places)| {
            let (file, keyword) = places[0];
            let definition = format!("{keyword} {name}");
            let line = file
                .text
                .lines()
                .position(|line| line.contains(&definition));
            let others: Vec<&str> = places[1..].iter().map(|(file, _)| &*file.path).collect();
            let others = others.join(", ");
            let message = format!("another type has the name {name}: {others}");
            TidyFinding::new(&file.path, line.map_or(1, |index| index + 1), message)
        })
        .collect()
}

/// The types that a file defines: keyword and name.
#[derive(Default)]
struct TypeNames(Vec<(&'static str, String)>);

impl TypeNames {
    fn add(&mut self, keyword: &'static str, name: &Ident) {
        self.0.push((keyword, name.to_string()));
    }
}

impl Visit<'_> for TypeNames {
    fn visit_item_struct(&mut self, item: &ItemStruct) {
        self.add("struct", &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        self.add("enum", &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &ItemTrait) {
        self.add("trait", &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_union(&mut self, item: &ItemUnion) {
        self.add("union", &item.ident);
        visit::visit_item_union(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_types_is_found_in_functions_and_modules_too() {
        let a = ("crates/a/src/a.rs", "struct Line;\nenum Other {}");
        let b = ("tests/tests/b.rs", "fn f() {\n    trait Line {}\n}");
        let c = (
            "crates/c/src/c.rs",
            "mod tests {\n    union Other { a: u8 }\n}",
        );
        let found = check(&SourceTree::from_files(&[a, b, c]));
        let found: Vec<String> = found.iter().map(TidyFinding::to_string).collect();
        let expected = [
            "crates/a/src/a.rs:1: another type has the name Line: tests/tests/b.rs",
            "crates/a/src/a.rs:2: another type has the name Other: crates/c/src/c.rs",
        ];
        assert_eq!(found, expected);
    }
}
