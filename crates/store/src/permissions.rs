//! Checks the rights of the user at the start. Without this check a missing right would be noticed later, and only by
//! some verbs.

use tidegate_core::SlotWidth;
use tidegate_core::keys::{self, DeploymentKeys};

use crate::config::StoreConfig;
use crate::connect_error::{ConnectError, ServerCheckError};
use crate::link::server::TimedConnection;
use crate::reply::Reply;
use crate::script::{LazyScript, script};

static PERMISSIONS: LazyScript = script!("permissions");

/// Rejects a user that lacks a right. Each server is checked, since each has its own users.
pub(crate) async fn check(
    session: &TimedConnection<'_>,
    config: &StoreConfig,
) -> Result<(), ConnectError> {
    let buckets = DeploymentKeys::new(1);
    let keys = buckets.keys(0);
    // With an explicit time the script does not call TIME, so that a missing right to TIME is reported too.
    let arguments = [
        keys.prefix(),
        "0",
        &keys.queues(),
        keys::LANES,
        &keys.bell(),
        &keys.alarm(),
        if config.cluster.is_empty() {
            ""
        } else {
            "cluster"
        },
    ];
    let answer = session
        .script(&PERMISSIONS.of(SlotWidth::default()), &arguments)
        .await?;
    let missing = Reply::new(answer)?.ok()?.texts()?;
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    Err(ServerCheckError::Forbidden(format!("the user lacks the right to {missing}")).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The commands in scripts of the auditor, or of the daemons. Commands that Rust sends are not included; the
    /// lists contain them by hand.
    fn called(by_auditor: bool) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua");
        let mut called = BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("audit_")
                != by_auditor
            {
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let calls = text.split("call('").skip(1);
            called.extend(calls.filter_map(|rest| Some(rest.split_once('\'')?.0.to_owned())));
        }
        called
    }

    fn is_allowed(command: &str, user: &str) -> bool {
        user.contains(&format!(" +{} ", command.to_lowercase()))
    }

    /// The users in the examples: the user of the daemons, and the user of the auditor.
    fn users() -> [String; 2] {
        [
            include_str!("../../../deploy/redis/users.acl").to_lowercase(),
            include_str!("../../../deploy/redis/auditor.acl").to_lowercase(),
        ]
    }

    #[test]
    fn every_command_of_the_scripts_is_checked_and_allowed_in_the_example() {
        let called = called(false);
        assert!(called.contains("ZADD") && called.len() > 15, "{called:?}");
        let asked = include_str!("../../../lua/permissions.lua");
        for command in called {
            assert!(asked.contains(&format!("'{command}'")), "{command}");
            for user in users() {
                assert!(is_allowed(&command, &user), "{command}: {user}");
            }
        }
    }

    #[test]
    fn the_auditor_of_the_example_has_more_rights_than_the_daemons() {
        let [daemons, auditor] = users();
        let called = called(true);
        assert!(called.contains("ZSCORE"), "{called:?}");
        for command in called {
            assert!(is_allowed(&command, &auditor), "{command}");
        }
        assert!(!is_allowed("SCAN", &daemons) && is_allowed("SCAN", &auditor));
        // The auditor connects as the daemons do, and calls scripts to repair. It does not publish.
        let of_publishes = ["+wait", "+waitaof"];
        for right in daemons
            .split_whitespace()
            .filter(|word| word.starts_with('+') && !of_publishes.contains(word))
        {
            assert!(
                auditor.split_whitespace().any(|word| word == right),
                "{right}"
            );
        }
    }
}
