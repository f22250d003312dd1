//! The programs that check or use the files.

use std::time::Duration;

use tidegate_testkit::ToolPackage;

pub(crate) const TOOL_LIMIT: Duration = Duration::from_secs(60);

pub(crate) const PROMETHEUS: ToolPackage = ToolPackage {
    package: "prometheus",
    probe: ("usr/bin/promtool", "--version"),
};
pub(crate) const HAPROXY: ToolPackage = ToolPackage {
    package: "haproxy",
    probe: ("usr/sbin/haproxy", "-v"),
};
