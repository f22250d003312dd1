//! Dependencies between the modules of a package: no files depend on each other in a circle, except a module and its
//! parent.

use std::collections::BTreeMap;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Meta, Token, UseTree, Visibility};

use super::finding::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// The path of a module from the root of its package. It is empty for the root.
type Module = Vec<String>;

pub(crate) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let packages = tree.manifests().map(|(folder, _)| format!("{folder}/src/"));
    packages
        .flat_map(|sources| check_package(tree, &sources))
        .collect()
}

fn check_package(tree: &SourceTree, sources: &str) -> Vec<TidyFinding> {
    let files: BTreeMap<Module, &SourceFile> = tree
        .with_extension("rs")
        .filter(|file| !file.is_test() && !is_program_of_library(tree, &file.path))
        .filter_map(|file| Some((module(file.path.strip_prefix(sources)?), file)))
        .collect();
    let modules: Vec<&Module> = files.keys().collect();
    let mut findings = Vec::new();
    let mut graph = DiGraphMap::<usize, ()>::new();
    for (number, (module, file)) in files.iter().enumerate() {
        match used(module, file, &files) {
            Ok(used) => {
                for other in used {
                    let other = modules.binary_search(&&other).unwrap_or(number);
                    graph.add_edge(number, other, ());
                }
            }
            Err(error) => findings.push(TidyFinding::new(&file.path, 1, error)),
        }
    }
    for circle in tarjan_scc(&graph) {
        if circle.len() > 1 && !is_family(&circle, &modules) {
            let mut paths: Vec<&str> = circle.iter().map(|it| &*files[modules[*it]].path).collect();
            paths.sort_unstable();
            let names = paths.join(", ");
            let message = format!("circular dependency of {} files: {names}", paths.len());
            findings.push(TidyFinding::new(paths[0], 1, message));
        }
    }
    findings
}

/// Whether these are a module and its parent: for example a type, and methods of it in a file of their own.
fn is_family(circle: &[usize], modules: &[&Module]) -> bool {
    let [one, other] = circle else {
        return false;
    };
    let (one, other) = (modules[*one], modules[*other]);
    let is_parent = |parent: &Module, child: &Module| {
        child
            .split_last()
            .is_some_and(|(_, rest)| rest == parent.as_slice())
    };
    is_parent(one, other) || is_parent(other, one)
}

/// Whether this is `main.rs` beside `lib.rs`: a package of its own, which uses the library from outside.
fn is_program_of_library(tree: &SourceTree, path: &str) -> bool {
    let folder = path.strip_suffix("main.rs");
    folder.is_some_and(|folder| tree.get(&format!("{folder}lib.rs")).is_some())
}

/// Returns the module of a file; `path` is relative to `src`.
fn module(path: &str) -> Module {
    let names = path.trim_end_matches(".rs").split('/');
    let mut names: Module = names.map(str::to_owned).collect();
    if let Some("mod" | "lib" | "main") = names.last().map(String::as_str) {
        names.pop();
    }
    names
}

/// Returns the other modules that a module uses.
fn used(
    module: &Module,
    file: &SourceFile,
    files: &BTreeMap<Module, &SourceFile>,
) -> Result<Vec<Module>, String> {
    let parsed = syn::parse_file(&file.text);
    let parsed = parsed.map_err(|error| format!("cannot be parsed: {error}"))?;
    let mut paths = Paths::default();
    paths.visit_file(&parsed);
    let found = paths.found.into_iter();
    let resolved = found.filter_map(|path| resolve(module, path, files));
    Ok(resolved.filter(|other| other != module).collect())
}

/// Returns the module that a path names, or whose item it names. Returns `None` for a path that does not begin with
/// `crate`, `self`, `super` or a child module.
fn resolve(
    module: &Module,
    path: Vec<String>,
    files: &BTreeMap<Module, &SourceFile>,
) -> Option<Module> {
    let mut target = module.clone();
    let mut names = path.into_iter().peekable();
    let is_child = |name: &String| {
        let mut child = module.clone();
        child.push(name.clone());
        files.contains_key(&child)
    };
    let first = names.peek()?;
    match first.as_str() {
        "crate" => target.clear(),
        "self" | "super" => {}
        _ if is_child(first) => {}
        _ => return None,
    }
    for name in names {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(target.pop()),
            _ => target.push(name),
        }
    }
    while !files.contains_key(&target) {
        target.pop()?;
    }
    Some(target)
}

/// The paths in a file, except in tests.
#[derive(Default)]
struct Paths {
    found: Vec<Vec<String>>,
}

impl Paths {
    fn add_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.found.push(with(&name.ident)),
            UseTree::Rename(name) => self.found.push(with(&name.ident)),
            UseTree::Glob(_) => self.found.push(before.to_vec()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(before, tree);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&[], &item.tree);
    }

    /// Ignores the path of a visibility such as `pub(in crate::a)`, which is not a use.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter();
        self.found
            .push(names.map(|it| it.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

pub(super) fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|meta| needs_test(&meta))
}

/// Whether a condition is `test`, or `all(…)` with `test` among its parts.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().any(needs_test)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = [("crates/a/Cargo.toml", "")];
        let tree = SourceTree::from_files(&[&manifest[..], files].concat());
        check(&tree).iter().map(TidyFinding::to_string).collect()
    }

    #[test]
    fn a_circular_dependency_is_found_and_one_with_the_parent_is_not() {
        let a = ("crates/a/src/a.rs", "use crate::b::{self, B};");
        let b = ("crates/a/src/b.rs", "fn f() -> super::c::C { todo!() }");
        let c = ("crates/a/src/c/mod.rs", "mod d;\nuse d::D;");
        let d = ("crates/a/src/c/d.rs", "use super::super::a::*;");
        let message = "circular dependency of 4 files: crates/a/src/a.rs, crates/a/src/b.rs, \
                       crates/a/src/c/d.rs, crates/a/src/c/mod.rs";
        assert_eq!(
            found(&[a, b, c, d]),
            [format!("crates/a/src/a.rs:1: {message}")]
        );
        let back = ("crates/a/src/b.rs", "use crate::a::A;");
        assert_eq!(found(&[a, back, c]).len(), 1);
        let child = ("crates/a/src/c/d.rs", "use super::C;");
        assert_eq!(found(&[c, child]), [""; 0]);
    }

    #[test]
    fn the_program_of_a_library_is_another_package() {
        let main = ("crates/a/src/main.rs", "use a::run;\nfn main() { run() }");
        let lib = ("crates/a/src/lib.rs", "pub use run::run;");
        let run = ("crates/a/src/run.rs", "use crate::error::Error;");
        let error = ("crates/a/src/error.rs", "use crate::start::Start;");
        let start = ("crates/a/src/start.rs", "pub struct Start;");
        assert_eq!(found(&[main, lib, run, error, start]), [""; 0]);
        let start = ("crates/a/src/start.rs", "use crate::run;");
        assert_eq!(found(&[main, lib, run, error, start]).len(), 1);
    }

    #[test]
    fn tests_may_use_any_module() {
        let a = ("crates/a/src/a.rs", "use crate::b::B;");
        let b = ("crates/a/src/b.rs", "use crate::c::C;");
        let c = (
            "crates/a/src/c.rs",
            "#[cfg(test)]\nmod tests { use crate::a::A; }\n\
             #[cfg(all(test, unix))]\nmod more { use crate::a::A; }",
        );
        assert_eq!(found(&[a, b, c]), [""; 0]);
    }
}
