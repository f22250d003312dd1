//! What a node says about its cluster.

use redis::{Value, from_redis_value};

use super::slot::Slot;
use crate::StoreError;
use crate::link::route::Place;

/// The cluster as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// Grows with each failover and with each slot that is handed over. A node that was cut off still
    /// has an older one.
    pub(super) epoch: u64,
    /// Whether the node takes calls: it hears most of the others.
    pub(super) is_ok: bool,
    pub(super) ranges: Vec<Range>,
}

/// Slots next to each other, and the primary that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: Slot,
    pub(super) last: Slot,
    pub(super) primary: Place,
}

impl View {
    /// Reads the answers to `CLUSTER INFO` and `CLUSTER SLOTS` of the node at `asked`.
    pub(super) fn read(info: &str, slots: Value, asked: &Place) -> Result<Self, StoreError> {
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            lines.find_map(|(key, value)| (key == name).then(|| value.trim()))
        };
        let ranges: Vec<Value> = from_redis_value(slots).map_err(|error| unreadable(&error))?;
        let ranges: Result<Vec<Range>, StoreError> = ranges
            .into_iter()
            .map(|range| Range::read(range, asked))
            .collect();
        let epoch = field("cluster_current_epoch").and_then(|text| text.parse().ok());
        Ok(Self {
            epoch: epoch.unwrap_or_default(),
            is_ok: field("cluster_state") == Some("ok"),
            ranges: ranges?,
        })
    }

    /// The primaries, each once.
    pub(super) fn primaries(&self) -> Vec<Place> {
        let mut primaries: Vec<Place> = Vec::new();
        for range in &self.ranges {
            if !primaries.contains(&range.primary) {
                primaries.push(range.primary.clone());
            }
        }
        primaries
    }
}

impl Range {
    /// First slot, last slot, and the nodes that have them; the primary is the first of these.
    fn read(range: Value, asked: &Place) -> Result<Self, StoreError> {
        let parts: Vec<Value> = from_redis_value(range).map_err(|error| unreadable(&error))?;
        let mut parts = parts.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let (first, last) = (slot(next())?, slot(next())?);
        let node: Vec<Value> = from_redis_value(next()).map_err(|error| unreadable(&error))?;
        let mut node = node.into_iter();
        let mut next = || node.next().unwrap_or(Value::Nil);
        let host: Option<String> = from_redis_value(next()).map_err(|error| unreadable(&error))?;
        let port = from_redis_value(next()).map_err(|error| unreadable(&error))?;
        // A node that knows no name for itself is where it was asked.
        let host = host.filter(|host| !host.is_empty() && host != "?");
        let host = host.unwrap_or_else(|| asked.host.clone());
        Ok(Self {
            first,
            last,
            primary: Place { host, port },
        })
    }
}

fn slot(value: Value) -> Result<Slot, StoreError> {
    let number: u16 = from_redis_value(value).map_err(|error| unreadable(&error))?;
    match number < Slot::COUNT {
        true => Ok(Slot(number)),
        false => Err(unreadable(&format!("slot {number}"))),
    }
}

fn unreadable(what: &impl std::fmt::Display) -> StoreError {
    StoreError::corrupt(format!("CLUSTER SLOTS: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Option<&str>, port: i64) -> Value {
        let host = host.map_or(Value::Nil, |host| Value::BulkString(host.into()));
        Value::Array(vec![host, Value::Int(port), Value::BulkString("id".into())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let mut parts = vec![Value::Int(first), Value::Int(last)];
        parts.extend(nodes);
        Value::Array(parts)
    }

    #[test]
    fn the_first_node_of_a_range_is_its_primary_and_one_without_a_name_is_the_one_that_was_asked() {
        let asked = Place {
            host: "here".to_owned(),
            port: 1,
        };
        let info = "cluster_state:ok\r\ncluster_current_epoch:7\r\n";
        let slots = Value::Array(vec![
            range(0, 99, vec![node(Some("a"), 10), node(Some("b"), 11)]),
            range(100, 100, vec![node(None, 12)]),
            range(101, 16383, vec![node(Some(""), 12)]),
        ]);
        let view = View::read(info, slots, &asked).unwrap();
        assert!(view.is_ok);
        assert_eq!(view.epoch, 7);
        let places: Vec<String> = view.primaries().iter().map(Place::to_string).collect();
        assert_eq!(places, ["a:10", "here:12"]);
        assert_eq!(view.ranges[1].last, Slot(100));
        let beyond = Value::Array(vec![range(0, 16384, vec![node(None, 1)])]);
        assert!(View::read(info, beyond, &asked).is_err());
    }
}
