//! The packages that programs are built from, as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CratePackage {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    /// `None` for packages of this workspace.
    pub(crate) source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<CrateTarget>,
}

#[derive(Debug, Clone, Deserialize)]
struct CrateTarget {
    kind: Vec<String>,
}

impl CratePackage {
    /// Name and version, which no two packages of a build share.
    pub(crate) fn reference(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// The folder with its sources.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Whether it runs in the compiler only.
    fn is_proc_macro(&self) -> bool {
        let mut kinds = self.targets.iter().flat_map(|target| &target.kind);
        kinds.any(|kind| kind == "proc-macro")
    }
}

#[derive(Debug, Deserialize)]
struct CargoMetadata {
    packages: Vec<CratePackage>,
    resolve: CargoResolve,
}

#[derive(Debug, Deserialize)]
struct CargoResolve {
    nodes: Vec<CargoNode>,
}

#[derive(Debug, Deserialize)]
struct CargoNode {
    id: String,
    deps: Vec<CargoDependency>,
}

#[derive(Debug, Deserialize)]
struct CargoDependency {
    pkg: String,
    dep_kinds: Vec<CargoDependencyKind>,
}

#[derive(Debug, Deserialize)]
struct CargoDependencyKind {
    /// `None` for normal dependencies, else "build" or "dev".
    kind: Option<String>,
}

/// The list of `cargo tree` for the programs: names and versions, as in [`CratePackage::reference`]. `cargo metadata`
/// lists more, since it switches on the features that other packages of the workspace need.
#[derive(Debug)]
pub(crate) struct BuiltPackages {
    pub(crate) normal: BTreeSet<String>,
    /// The same, with dependencies of build scripts.
    pub(crate) all: BTreeSet<String>,
}

impl BuiltPackages {
    /// Reads lines such as `serde v1.0.229 (proc-macro)`.
    pub(crate) fn read_tree(printed: &str) -> BTreeSet<String> {
        let reference = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            let version = words.next()?.strip_prefix('v')?;
            Some(format!("{name}@{version}"))
        };
        printed.lines().filter_map(reference).collect()
    }
}

/// The packages that programs are built from.
#[derive(Debug)]
pub(crate) struct DependencyGraph {
    packages: BTreeMap<String, CratePackage>,
    /// The direct dependencies of each package, except for its tests.
    edges: BTreeMap<String, BTreeSet<String>>,
    /// The packages whose code is in a program. The others run during the build: procedural macros, build scripts.
    in_programs: BTreeSet<String>,
}

impl DependencyGraph {
    /// Reads the output of `cargo metadata`, and keeps the packages that the packages named `roots` are built from.
    pub(crate) fn read(
        metadata: Value,
        roots: &[&str],
        built: &BuiltPackages,
    ) -> Result<Self, String> {
        let metadata: CargoMetadata = serde_json::from_value(metadata)
            .map_err(|error| format!("cargo metadata has an unknown format: {error}"))?;
        let packages = metadata.packages.into_iter();
        let packages: BTreeMap<String, CratePackage> =
            packages.map(|one| (one.id.clone(), one)).collect();
        let nodes = &metadata.resolve.nodes;
        let normal = edges(nodes, |kind| kind.is_none());
        let all = edges(nodes, |kind| kind != Some("dev"));
        let named = |name: &&str| {
            let is_root = |one: &&CratePackage| one.source.is_none() && one.name == **name;
            let found = packages.values().find(is_root);
            let found = found.map(|one| one.id.clone());
            found.ok_or_else(|| format!("no package of the workspace is called {name}"))
        };
        let roots = roots.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        let is_in = |id: &str, some: &BTreeSet<String>| {
            let package = packages.get(id);
            package.is_some_and(|package| some.contains(&package.reference()))
        };
        // The dependencies of a procedural macro run in the compiler, too.
        let runs = |id: &str| !packages.get(id).is_some_and(CratePackage::is_proc_macro);
        let in_programs = reachable(&roots, &normal, |id| runs(id) && is_in(id, &built.normal));
        let built = reachable(&roots, &all, |id| is_in(id, &built.all));
        let keep = |id: &String| built.contains(id);
        Ok(Self {
            in_programs,
            edges: all.into_iter().filter(|(id, _)| keep(id)).collect(),
            packages: packages.into_iter().filter(|(id, _)| keep(id)).collect(),
        })
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &CratePackage> {
        self.packages.values()
    }

    /// Whether code of the package is in a program.
    pub(crate) fn is_in_programs(&self, package: &CratePackage) -> bool {
        self.in_programs.contains(&package.id)
    }

    /// The packages that a package depends on, except for its tests.
    pub(crate) fn dependencies(
        &self,
        package: &CratePackage,
    ) -> impl Iterator<Item = &CratePackage> {
        let ids = self.edges.get(&package.id).into_iter().flatten();
        ids.filter_map(|id| self.packages.get(id))
    }
}

/// Returns the dependencies of which a kind is one that counts.
fn edges(
    nodes: &[CargoNode],
    counts: impl Fn(Option<&str>) -> bool,
) -> BTreeMap<String, BTreeSet<String>> {
    let of = |node: &CargoNode| {
        let deps = node.deps.iter().filter(|dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            kinds.any(|kind| counts(kind.kind.as_deref()))
        });
        deps.map(|dependency| dependency.pkg.clone()).collect()
    };
    nodes
        .iter()
        .map(|node| (node.id.clone(), of(node)))
        .collect()
}

/// Returns the packages that can be reached from others through packages for which `passes` holds. Packages for which
/// it does not are left out.
fn reachable(
    roots: &[String],
    edges: &BTreeMap<String, BTreeSet<String>>,
    passes: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = roots.iter().collect();
    while let Some(id) = open.pop() {
        if passes(id) && found.insert(id.clone()) {
            open.extend(edges.get(id).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A program with a library, a macro and a build script, each with a dependency; the library has tests.
    fn graph() -> DependencyGraph {
        let package = |name: &str, kind: &str, source: Option<&str>| {
            let targets = json!([{"kind": [kind]}]);
            json!({
                "id": name, "name": name, "version": "1.0.0", "source": source, "manifest_path": "Cargo.toml",
                "targets": targets,
            })
        };
        let node = |id: &str, deps: &[(&str, Option<&str>)]| {
            let dep = |(to, kind): &(&str, Option<&str>)| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
            json!({"id": id, "deps": deps.iter().map(dep).collect::<Vec<_>>()})
        };
        let lib = |name| package(name, "lib", Some("registry"));
        let metadata = json!({
            "packages": [
                package("program", "bin", None), lib("library"), package("macro", "proc-macro", Some("registry")),
                lib("parser"), lib("compiler"), lib("tester"), lib("other"), lib("optional"),
            ],
            "resolve": {"nodes": [
                node("program", &[("library", None), ("macro", None), ("compiler", Some("build"))]),
                node("library", &[("tester", Some("dev")), ("optional", None)]),
                node("macro", &[("parser", None)]),
                node("parser", &[]), node("compiler", &[]), node("tester", &[]),
                node("other", &[]), node("optional", &[]),
            ]},
        });
        let references =
            |names: &[&str]| names.iter().map(|name| format!("{name}@1.0.0")).collect();
        let built = BuiltPackages {
            normal: references(&["program", "library", "macro", "parser"]),
            all: references(&["program", "library", "macro", "parser", "compiler"]),
        };
        DependencyGraph::read(metadata, &["program"], &built).unwrap()
    }

    #[test]
    fn packages_of_tests_of_other_programs_and_of_other_features_are_left_out() {
        let graph = graph();
        let names: Vec<&str> = graph.packages().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["compiler", "library", "macro", "parser", "program"]);
    }

    #[test]
    fn macros_and_build_scripts_are_not_in_programs() {
        let graph = graph();
        let inside = graph.packages().filter(|one| graph.is_in_programs(one));
        let names: Vec<&str> = inside.map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["library", "program"]);
    }

    #[test]
    fn lines_of_a_tree_become_names_and_versions() {
        let printed = "one v1.0.0 (/folder)\ntwo v2.1.0-rc.1 (proc-macro) (*)\n\none v1.0.0\n";
        let read = BuiltPackages::read_tree(printed);
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            ["one@1.0.0", "two@2.1.0-rc.1"]
        );
    }

    #[test]
    fn an_unknown_program_is_an_error() {
        let metadata = json!({"packages": [], "resolve": {"nodes": []}});
        let built = BuiltPackages {
            normal: BTreeSet::new(),
            all: BTreeSet::new(),
        };
        let error = DependencyGraph::read(metadata, &["program"], &built).unwrap_err();
        assert!(error.contains("program"), "{error}");
    }
}
