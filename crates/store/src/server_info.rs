//! The report of a server about itself (`INFO`).

use std::collections::HashMap;

use crate::error::{StoreError, Unavailable};
use crate::link::server::TimedConnection;

/// The sections that name the server, its role, and whether it is loading its data.
pub(crate) const IDENTITY: [&str; 3] = ["server", "replication", "persistence"];

/// The fields of a reply to `INFO`.
#[derive(Debug, Default)]
pub(crate) struct ServerInfo(HashMap<String, String>);

impl ServerInfo {
    /// Reads these sections; the default ones if none is named.
    pub(crate) async fn read(
        session: &TimedConnection<'_>,
        sections: &[&str],
    ) -> Result<Self, StoreError> {
        let mut command = redis::cmd("INFO");
        command.arg(sections);
        Ok(Self::parse(&session.command::<String>(&command).await?))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| {
            let (key, value) = line.trim_end().split_once(':')?;
            Some((key.to_owned(), value.to_owned()))
        });
        Self(fields.collect())
    }

    pub(crate) fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    /// The random id that a server process chooses at its start; `None` behind a proxy that hides it.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.get("run_id")
    }

    /// Whether the server is loading its data. Until the end of the load it reports no append-only file.
    pub(crate) fn is_loading(&self) -> bool {
        self.get("loading") == Some("1")
    }

    /// Checks that the server is a master that has loaded its data.
    ///
    /// # Errors
    /// The server is loading, or is a replica. A later check may succeed.
    pub(crate) fn check_master(&self) -> Result<(), StoreError> {
        let field = |name| self.get(name).unwrap_or("?");
        if self.is_loading() {
            let loaded = field("loading_loaded_perc");
            return Err(StoreError::not_ready(format!(
                "the server is loading its data ({loaded} % done)"
            )));
        }
        if self.get("role") != Some("slave") {
            return Ok(());
        }
        if self.get("master_sync_in_progress") == Some("1") {
            return Err(StoreError::not_ready(
                "the server is a replica that is synchronizing with its master",
            ));
        }
        let (host, port) = (field("master_host"), field("master_port"));
        Err(StoreError::unavailable(
            Unavailable::IsReplica,
            format!(
                "the server is a replica of {host}:{port}: the address must lead to the master"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> Option<Unavailable> {
        ServerInfo::parse(text)
            .check_master()
            .err()
            .and_then(|error| error.reason())
    }

    #[test]
    fn only_a_master_that_has_loaded_its_data_can_be_used() {
        for (text, expected) in [
            ("role:master\r\nloading:0\r\n", None),
            ("a proxy hides everything", None),
            (
                "role:master\r\nloading:1\r\naof_enabled:0\r\n",
                Some(Unavailable::NotReady),
            ),
            (
                "role:slave\r\nloading:0\r\nmaster_sync_in_progress:1\r\n",
                Some(Unavailable::NotReady),
            ),
            (
                "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_sync_in_progress:0\r\n",
                Some(Unavailable::IsReplica),
            ),
        ] {
            assert_eq!(reason(text), expected, "{text}");
        }
    }
}
