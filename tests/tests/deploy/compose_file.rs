//! `deploy/compose.yaml`, as Docker Compose reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::container::{ImageTarget, image};
use crate::files::{path, yaml};

/// The password that tests set as `TG_ADMIN_PASSWORD`.
const PASSWORD: &str = "a-password-of-the-test";

pub(crate) struct ComposeService {
    pub(crate) name: String,
    pub(crate) value: Value,
}

pub(crate) fn services() -> BTreeMap<String, ComposeService> {
    let file = yaml("deploy/compose.yaml");
    let services = file["services"].as_object().expect("services").iter();
    let named = services.map(|(name, value)| {
        let service = ComposeService {
            name: name.clone(),
            value: value.clone(),
        };
        (name.clone(), service)
    });
    named.collect()
}

impl ComposeService {
    /// Returns the image of the daemon that it builds.
    pub(crate) fn daemon(&self) -> Option<ImageTarget> {
        let build = self.value["build"].as_object()?;
        let dockerfile = path("deploy").join(build["context"].as_str().unwrap());
        let dockerfile = dockerfile.join(build["dockerfile"].as_str().unwrap());
        assert!(dockerfile.is_file(), "{}", dockerfile.display());
        Some(image(build["target"].as_str().unwrap()))
    }

    /// Returns the variables, those of the image included.
    pub(crate) fn environment(&self, image: &ImageTarget) -> Vec<(String, String)> {
        let own = self.value["environment"].as_object().into_iter().flatten();
        let own = own.map(|(name, value)| (name.clone(), interpolated(value.as_str().unwrap())));
        image.environment.iter().cloned().chain(own).collect()
    }

    /// Returns the arguments.
    pub(crate) fn command(&self) -> Vec<String> {
        strings(&self.value["command"])
    }

    /// Returns the files and folders that it mounts: where they are in the repository, and in the container.
    pub(crate) fn mounts(&self) -> Vec<(String, String)> {
        let volumes = strings(&self.value["volumes"]);
        let mounts = volumes.iter().filter_map(|volume| {
            let mut parts = volume.split(':');
            let from = parts.next()?.strip_prefix("./")?;
            Some((format!("deploy/{from}"), parts.next()?.to_owned()))
        });
        mounts.collect()
    }

    /// Returns the time between SIGTERM and SIGKILL.
    pub(crate) fn stop_grace(&self) -> Duration {
        tidegate_core::duration::parse(self.value["stop_grace_period"].as_str().unwrap()).unwrap()
    }

    /// Returns the names of services that it depends on.
    pub(crate) fn depends_on(&self) -> BTreeSet<String> {
        match &self.value["depends_on"] {
            Value::Object(names) => names.keys().cloned().collect(),
            names => strings(names).into_iter().collect(),
        }
    }
}

/// Replaces `${TG_ADMIN_PASSWORD:?MESSAGE}`.
fn interpolated(value: &str) -> String {
    match value.strip_prefix("${TG_ADMIN_PASSWORD:?") {
        Some(rest) => {
            assert!(rest.ends_with('}'), "{value}");
            PASSWORD.to_owned()
        }
        None => {
            assert!(!value.contains('$'), "{value}");
            value.to_owned()
        }
    }
}

/// Returns the strings of a list; none if there is no list.
pub(crate) fn strings(list: &Value) -> Vec<String> {
    let values = list.as_array().into_iter().flatten();
    values.map(|one| one.as_str().unwrap().to_owned()).collect()
}
