//! Names in a hash, by namespace, and how many of them it counts.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Namespace;

use crate::verbs::NamespaceCount;

/// The names of a namespace in a hash.
#[derive(Debug, Default)]
struct NamespaceNames {
    names: BTreeSet<Vec<u8>>,
    counted: Vec<u8>,
}

/// The names that a hash has of all namespaces.
#[derive(Debug, Default)]
pub(super) struct CountedNames(BTreeMap<Namespace, NamespaceNames>);

impl CountedNames {
    /// Adds a field of the hash. `HSCAN` may return one twice.
    pub(super) fn add(&mut self, field: &[u8], value: &[u8]) {
        let Some((namespace, name)) = split(field) else {
            return;
        };
        let of_namespace = self.0.entry(namespace).or_default();
        if name.is_empty() {
            of_namespace.counted = value.to_vec();
        } else if !is_lane_without_queue(value) {
            of_namespace.names.insert(name.to_vec());
        }
    }

    /// The count of a namespace in the hash, and how many names it has.
    pub(super) fn count(&self, namespace: &Namespace) -> NamespaceCount {
        self.0.get(namespace).map(count_of).unwrap_or_default()
    }

    /// The namespaces that seem to count another number than they have.
    pub(super) fn doubtful(&self) -> Vec<Namespace> {
        let doubtful = self
            .0
            .iter()
            .filter(|(_, names)| !count_of(names).is_right());
        doubtful.map(|(namespace, _)| namespace.clone()).collect()
    }
}

fn count_of(names: &NamespaceNames) -> NamespaceCount {
    NamespaceCount {
        counted: names.counted.clone(),
        names: names.names.len(),
    }
}

/// The namespace and the name in a field; `None` if it is no name of a namespace.
fn split(field: &[u8]) -> Option<(Namespace, &[u8])> {
    let at = field.iter().position(|byte| *byte == b'/')?;
    let namespace = str::from_utf8(&field[..at]).ok()?;
    Some((Namespace::try_from(namespace).ok()?, &field[at + 1..]))
}

/// Whether the value is the entry of a lane that was closed before it had a queue number.
fn is_lane_without_queue(value: &[u8]) -> bool {
    value.starts_with(b"closed ") && value.ends_with(b" 0")
}
