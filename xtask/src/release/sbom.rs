//! The software bill of materials: a CycloneDX document with all crates that the programs are built from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cyclonedx_bom::models::component::{Classification, Scope};
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::external_reference::{
    ExternalReference, ExternalReferenceType, ExternalReferences, Uri as Reference,
};
use cyclonedx_bom::models::hash::{Hash, HashAlgorithm, HashValue, Hashes};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::tool::{Tool, Tools};
use cyclonedx_bom::prelude::{
    Bom, Component, Components, DateTime, Metadata, NormalizedString, Purl, SpdxExpression,
    SpecVersion, Uri, UrnUuid, Validate,
};

use super::build::{PROGRAMS, ReleaseProgram, ReleasePrograms};
use super::checksums::sha256;
use super::dependency_graph::{BuiltPackages, CratePackage, DependencyGraph};
use super::io::{failed_at, output};
use super::source_state::SourceState;
use crate::workspace::Workspace;

const VERSION: SpecVersion = SpecVersion::V1_5;
/// Crates whose files a build script puts into a program.
const EMBEDDED: [&str; 1] = ["utoipa-swagger-ui-vendored"];
/// The product that all programs belong to.
const PRODUCT: &str = "tidegate";
const MIT_OR_APACHE: &str = "MIT OR Apache-2.0";

/// Reads the packages that the programs are built from.
pub(crate) fn graph(
    workspace: &Workspace,
    programs: &ReleasePrograms,
) -> Result<DependencyGraph, String> {
    let packages = PROGRAMS.map(|(_, package)| package);
    let target = programs.machine().target;
    let metadata = workspace.dependencies_for(target)?;
    let built = BuiltPackages {
        normal: tree(workspace, target, "normal")?,
        all: tree(workspace, target, "normal,build")?,
    };
    DependencyGraph::read(metadata, &packages, &built)
}

/// Writes the document into a folder and returns the name of its file.
pub(crate) fn write(
    workspace: &Workspace,
    graph: &DependencyGraph,
    programs: &ReleasePrograms,
    state: &SourceState,
    folder: &Path,
) -> Result<String, String> {
    let checksums = lock_checksums(workspace)?;
    let mut bom = document(graph, &checksums, programs, state)?;
    bom.serial_number = None;
    let content = json(&bom)?;
    bom.serial_number = Some(serial_number(&content)?);
    let text = json(&bom)?;
    let name = format!(
        "tidegate-{}-linux-{}.cdx.json",
        state.version,
        programs.machine().name
    );
    let path = folder.join(&name);
    fs::write(&path, text).map_err(failed_at(&path))?;
    Ok(name)
}

/// Checks the document and returns its text.
fn json(bom: &Bom) -> Result<Vec<u8>, String> {
    let checked = bom.validate_version(VERSION);
    if !checked.passed() {
        return Err(format!("the SBOM is invalid: {checked:?}"));
    }
    let mut text = Vec::new();
    let written = bom.clone().output_as_json_v1_5(&mut text);
    written.map_err(|error| format!("the SBOM cannot be written: {error}"))?;
    Ok(text)
}

/// A document with other content has another number: a UUID of version 8, from the SHA-256 of the content.
fn serial_number(content: &[u8]) -> Result<UrnUuid, String> {
    let hash = sha256(content);
    let (first, second, third) = (&hash[..8], &hash[8..12], &hash[12..15]);
    let (fourth, fifth) = (&hash[15..18], &hash[18..30]);
    let number = format!("urn:uuid:{first}-{second}-8{third}-8{fourth}-{fifth}");
    UrnUuid::new(number).map_err(|error| format!("{error:?}"))
}

/// Returns the names and versions of the packages that the programs are built from.
fn tree(workspace: &Workspace, target: &str, edges: &str) -> Result<BTreeSet<String>, String> {
    let mut cargo = workspace.cargo();
    cargo.args(["tree", "--locked", "--quiet", "--prefix", "none"]);
    cargo.args(["--target", target, "--edges", edges]);
    for (_, package) in PROGRAMS {
        cargo.args(["--package", package]);
    }
    let printed = output(&mut cargo)?;
    Ok(BuiltPackages::read_tree(&String::from_utf8_lossy(&printed)))
}

fn document(
    graph: &DependencyGraph,
    checksums: &BTreeMap<String, String>,
    programs: &ReleasePrograms,
    state: &SourceState,
) -> Result<Bom, String> {
    let mut product = Component::new(
        Classification::Application,
        PRODUCT,
        &state.version,
        Some(PRODUCT.to_owned()),
    );
    product.licenses = licence(MIT_OR_APACHE)?;
    let programs = programs.all();
    let mut components: Vec<Component> = Vec::new();
    for one in programs {
        components.push(program(one, &state.version)?);
    }
    let mut dependencies = vec![Dependency {
        dependency_ref: PRODUCT.to_owned(),
        dependencies: programs.iter().map(program_reference).collect(),
    }];
    for package in graph.packages() {
        let is_embedded = EMBEDDED.contains(&package.name.as_str());
        let scope = match is_embedded || graph.is_in_programs(package) {
            true => Scope::Required,
            false => Scope::Excluded,
        };
        components.push(library(package, scope, checksums)?);
        let needed = graph.dependencies(package);
        dependencies.push(Dependency {
            dependency_ref: package.reference(),
            dependencies: needed.map(CratePackage::reference).collect(),
        });
        let built = programs
            .iter()
            .filter(|program| program.package == package.name);
        dependencies.extend(built.map(|program| Dependency {
            dependency_ref: program_reference(program),
            dependencies: vec![package.reference()],
        }));
    }
    let time = DateTime::try_from(state.timestamp().to_string());
    Ok(Bom {
        spec_version: VERSION,
        metadata: Some(Metadata {
            timestamp: Some(time.map_err(|error| error.to_string())?),
            tools: Some(Tools::List(vec![Tool::new(
                PRODUCT,
                "cargo xtask release",
                &state.version,
            )])),
            component: Some(product),
            ..Metadata::default()
        }),
        components: Some(Components(components)),
        dependencies: Some(Dependencies(dependencies)),
        ..Bom::default()
    })
}

fn program_reference(program: &ReleaseProgram) -> String {
    format!("program:{}", program.name)
}

/// A program, as it is in the archive and in its package.
fn program(program: &ReleaseProgram, version: &str) -> Result<Component, String> {
    let reference = program_reference(program);
    let kind = Classification::Application;
    let mut component = Component::new(kind, program.name, version, Some(reference));
    component.licenses = licence(MIT_OR_APACHE)?;
    component.hashes = Some(hash(&sha256(&program.content)));
    Ok(component)
}

fn library(
    package: &CratePackage,
    scope: Scope,
    checksums: &BTreeMap<String, String>,
) -> Result<Component, String> {
    let CratePackage { name, version, .. } = package;
    let kind = Classification::Library;
    let mut component = Component::new(kind, name, version, Some(package.reference()));
    component.scope = Some(scope);
    let text = |text: &String| NormalizedString::new(text.trim());
    component.description = package.description.as_ref().map(text);
    if let Some(expression) = &package.license {
        component.licenses = licence(expression).map_err(|error| format!("{name}: {error}"))?;
    }
    if let Some(repository) = &package.repository {
        let url = Reference::Url(Uri::new(repository));
        let reference = ExternalReference::new(ExternalReferenceType::Vcs, url);
        component.external_references = Some(ExternalReferences(vec![reference]));
    }
    // Packages of this workspace are not published.
    if package.source.is_some() {
        let purl = Purl::new("cargo", name, version);
        component.purl = Some(purl.map_err(|error| format!("{name}: {error}"))?);
        let checksum = checksums.get(&lock_key(name, version));
        let checksum =
            checksum.ok_or_else(|| format!("Cargo.lock has no checksum of {name} {version}"))?;
        component.hashes = Some(hash(checksum));
    }
    Ok(component)
}

/// The expression of a manifest, which may have the old form `MIT/Apache-2.0`.
fn licence(expression: &str) -> Result<Option<Licenses>, String> {
    let parsed = SpdxExpression::parse_lax(expression.to_owned());
    let parsed = parsed.map_err(|error| format!("licence {expression:?}: {error}"))?;
    Ok(Some(Licenses(vec![LicenseChoice::Expression(parsed)])))
}

fn hash(sha256: &str) -> Hashes {
    Hashes(vec![Hash {
        alg: HashAlgorithm::SHA_256,
        content: HashValue(sha256.to_owned()),
    }])
}

fn lock_key(name: &str, version: &str) -> String {
    format!("{name} {version}")
}

/// The SHA-256 of the packages in `Cargo.lock`, by name and version.
fn lock_checksums(workspace: &Workspace) -> Result<BTreeMap<String, String>, String> {
    let path = workspace.root().join("Cargo.lock");
    let text = fs::read_to_string(&path).map_err(failed_at(&path))?;
    let lock: toml::Table = text
        .parse()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let entry = |package: &toml::Value| {
        let text = |key: &str| package.get(key)?.as_str();
        Some((
            lock_key(text("name")?, text("version")?),
            text("checksum")?.to_owned(),
        ))
    };
    Ok(packages.into_iter().flatten().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_number_depends_on_the_content_alone() {
        let number = serial_number(b"one").unwrap();
        assert_eq!(number, serial_number(b"one").unwrap());
        assert_ne!(number, serial_number(b"two").unwrap());
    }
}
