//! Helm and kubeconform, which Go builds, and the schemas of Kubernetes, from a package of PyPI. All are kept in
//! `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tidegate_local_program::{
    DownloadSource, ProgramCache, ProgramEntry, command, workspace_cache,
};
use tidegate_testkit::print_figure;

const VERSION_LIMIT: Duration = Duration::from_secs(20);
const BUILD_LIMIT: Duration = Duration::from_secs(600);
/// The version of Kubernetes whose schemas are used.
pub(crate) const KUBERNETES: &str = "1.31.0";
const SCHEMA_PACKAGE: &str = "kubernetes-validate==1.37.0";
/// The objects that the chart may have, besides those of the operator of Prometheus.
const KINDS: [&str; 6] = [
    "configmap-v1",
    "deployment-apps-v1",
    "horizontalpodautoscaler-autoscaling-v2",
    "networkpolicy-networking-v1",
    "poddisruptionbudget-policy-v1",
    "service-v1",
];

/// Returns Helm. Blocks while it is built.
pub(crate) fn helm() -> PathBuf {
    go_program("helm", "helm.sh/helm/v3/cmd/helm@v3.16.4", "version")
}

/// Returns kubeconform. Blocks while it is built.
pub(crate) fn kubeconform() -> PathBuf {
    let package = "github.com/yannh/kubeconform/cmd/kubeconform@v0.6.7";
    go_program("kubeconform", package, "-v")
}

fn go_program(name: &str, package: &str, probe: &str) -> PathBuf {
    let check = |folder: &Path| {
        let program = folder.join(name);
        command::run(Command::new(&program).arg(probe), VERSION_LIMIT).map(|_| folder.join(name))
    };
    let build = |folder: &Path, _: &mut dyn FnMut(&str)| {
        let mut go = Command::new("go");
        go.args(["install", package]).env("GOBIN", folder);
        command::run(&mut go, BUILD_LIMIT).map(drop)
    };
    let remedy = "install Go 1.22 or later (Debian 13: golang), which needs a module proxy once";
    obtain(name, &check, ("Go", &build), remedy)
}

/// Returns a folder with a schema for each kind. Blocks during a download.
pub(crate) fn schemas() -> PathBuf {
    let check = |folder: &Path| {
        let all = KINDS
            .iter()
            .all(|kind| folder.join(format!("{kind}.json")).is_file());
        all.then(|| folder.to_owned())
            .ok_or_else(|| "a schema is missing".to_owned())
    };
    let fetch = |folder: &Path, _: &mut dyn FnMut(&str)| {
        let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            ".",
            SCHEMA_PACKAGE,
        ]);
        command::run(pip.current_dir(work.path()), BUILD_LIMIT)?;
        let entries = fs::read_dir(work.path()).map_err(|error| error.to_string())?;
        let wheel = entries
            .flatten()
            .next()
            .ok_or("pip downloaded nothing")?
            .path();
        let mut unpack = Command::new("python3");
        unpack
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(work.path());
        command::run(&mut unpack, BUILD_LIMIT)?;
        let from = work.path().join(format!(
            "kubernetes_validate/kubernetes-json-schema/v{KUBERNETES}-local-strict"
        ));
        write_schemas(&from, folder).map_err(|error| format!("{}: {error}", from.display()))
    };
    obtain(
        "kubernetes-schemas",
        &check,
        ("PyPI", &fetch),
        "it needs Python with pip, and PyPI once",
    )
}

/// Puts the definitions into each schema: kubeconform does not resolve those of other files.
fn write_schemas(from: &Path, to: &Path) -> std::io::Result<()> {
    let read = |name: &str| -> std::io::Result<Value> {
        let text = fs::read_to_string(from.join(name))?;
        Ok(serde_json::from_str(
            &text.replace("/api/_definitions.json#", "#"),
        )?)
    };
    let definitions = read("_definitions.json")?["$defs"].take();
    for kind in KINDS {
        let name = format!("{kind}.json");
        let mut schema = read(&name)?;
        schema["$defs"] = definitions.clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("$id");
        }
        fs::write(to.join(name), schema.to_string())?;
    }
    Ok(())
}

/// Returns an entry of the cache.
fn obtain(
    name: &str,
    check: &dyn Fn(&Path) -> Result<PathBuf, String>,
    source: DownloadSource<'_>,
    remedy: &str,
) -> PathBuf {
    let check = |folder: &Path| check(folder).map(|path| path.display().to_string());
    let entry = ProgramEntry {
        name,
        wanted: name,
        check: &check,
    };
    let cache = ProgramCache::new(&workspace_cache("tools"));
    let obtained = cache.obtain(&entry, Vec::new(), &[source], &mut print_figure);
    obtained
        .unwrap_or_else(|error| panic!("{error}\n{remedy}"))
        .into()
}
