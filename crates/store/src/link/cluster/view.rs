//! The cluster as reported by one node.

use redis::{FromRedisValue, Value, from_redis_value};
use tidegate_core::hash_slot::HASH_SLOTS;

use crate::error::StoreError;
use crate::link::host_port::HostPort;

/// Epoch, state and slots as one node reports them.
#[derive(Debug, Default)]
pub(super) struct ClusterView {
    /// Increases with each failover and each slot migration. A node that was partitioned has an earlier epoch.
    pub(super) epoch: u64,
    /// Whether the node accepts calls (`cluster_state:ok`): it reaches the majority of the primaries.
    pub(super) is_ok: bool,
    pub(super) ranges: Vec<SlotRange<HostPort>>,
}

/// A range of slots, and its primary: the address or the server.
#[derive(Debug)]
pub(super) struct SlotRange<P> {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: P,
}

impl ClusterView {
    /// Parses the replies to `CLUSTER INFO` and `CLUSTER SLOTS` of the node at `asked_node`.
    pub(super) fn read(
        info: &str,
        slots: Value,
        asked_node: &HostPort,
    ) -> Result<Self, StoreError> {
        let field = |name: &str| {
            let mut lines = info
                .lines()
                .filter_map(|redis_connection| redis_connection.split_once(':'));
            lines.find_map(|(key, value)| (key == name).then(|| value.trim()))
        };
        let ranges: Vec<Value> = parsed(slots)?;
        let ranges = ranges
            .into_iter()
            .map(|range| SlotRange::read(range, asked_node));
        let ranges: Result<Vec<_>, StoreError> = ranges.collect();
        let epoch = field("cluster_current_epoch").and_then(|text| text.parse().ok());
        Ok(Self {
            epoch: epoch.unwrap_or_default(),
            is_ok: field("cluster_state") == Some("ok"),
            ranges: ranges?,
        })
    }

    /// The primaries, each once.
    pub(super) fn primaries(&self) -> Vec<HostPort> {
        let mut primaries: Vec<HostPort> = Vec::new();
        for range in &self.ranges {
            if !primaries.contains(&range.primary) {
                primaries.push(range.primary.clone());
            }
        }
        primaries
    }
}

impl SlotRange<HostPort> {
    /// Parses a range: first slot, last slot, then its nodes, the primary first.
    fn read(range: Value, asked_node: &HostPort) -> Result<Self, StoreError> {
        let parts: Vec<Value> = parsed(range)?;
        let mut parts = parts.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let (first, last) = (slot(next())?, slot(next())?);
        let node: Vec<Value> = parsed(next())?;
        let mut node = node.into_iter();
        let mut next = || node.next().unwrap_or(Value::Nil);
        let host: Option<String> = parsed(next())?;
        let port = parsed(next())?;
        // A node that reports no host for itself has the host of `asked_node`.
        let host = host.filter(|host| !host.is_empty() && host != "?");
        let host = host.unwrap_or_else(|| asked_node.host.clone());
        Ok(Self {
            first,
            last,
            primary: HostPort { host, port },
        })
    }
}

fn slot(value: Value) -> Result<u16, StoreError> {
    let number: u16 = parsed(value)?;
    match number < HASH_SLOTS {
        true => Ok(number),
        false => Err(unreadable(&format!("slot {number}"))),
    }
}

fn parsed<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    from_redis_value(value).map_err(|error| unreadable(&error))
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
    fn the_first_node_of_a_range_is_its_primary_and_a_missing_host_is_that_of_the_asked_node() {
        let asked_node = HostPort {
            host: "here".to_owned(),
            port: 1,
        };
        let info = "cluster_state:ok\r\ncluster_current_epoch:7\r\n";
        let slots = Value::Array(vec![
            range(0, 99, vec![node(Some("a"), 10), node(Some("b"), 11)]),
            range(100, 100, vec![node(None, 12)]),
            range(101, 16383, vec![node(Some(""), 12)]),
        ]);
        let view = ClusterView::read(info, slots, &asked_node).unwrap();
        assert!(view.is_ok);
        assert_eq!(view.epoch, 7);
        let addresses: Vec<String> = view.primaries().iter().map(HostPort::to_string).collect();
        assert_eq!(addresses, ["a:10", "here:12"]);
        assert_eq!(view.ranges[1].last, 100);
        let beyond = Value::Array(vec![range(0, 16384, vec![node(None, 1)])]);
        assert!(ClusterView::read(info, beyond, &asked_node).is_err());
    }
}
