//! Whether the user may do all that the daemons do. A right that is missing would otherwise show in the
//! middle of the work, in one verb and not in another.

use tidegate_core::SlotWidth;
use tidegate_core::keys::{self, Buckets};

use crate::link::Session;
use crate::reply::Reply;
use crate::script::{LazyScript, script};
use crate::server_check::Refusal;
use crate::{ConnectError, StoreConfig};

static PERMISSIONS: LazyScript = script!("permissions");

/// Refuses a user that lacks a right at this server: each server has users of its own.
pub(crate) async fn check(session: &Session<'_>, config: &StoreConfig) -> Result<(), ConnectError> {
    let buckets = Buckets::new(1);
    let keys = buckets.keys(0);
    // The clock is stopped: where the right to read it is missing, that is to be told, too.
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
    Err(Refusal::Forbidden(format!("this user lacks the right to {missing}")).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// What our scripts call, those of the auditor or the others. What Rust calls is in the lists by hand.
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

    /// The users of the examples: the daemons', and the auditor's.
    fn users() -> [String; 2] {
        [
            include_str!("../../../deploy/redis/users.acl").to_lowercase(),
            include_str!("../../../deploy/redis/auditor.acl").to_lowercase(),
        ]
    }

    #[test]
    fn every_command_of_our_scripts_is_asked_for_and_allowed_in_the_example() {
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
    fn the_auditor_of_the_example_may_do_more_and_the_daemons_need_not() {
        let [daemons, auditor] = users();
        let called = called(true);
        assert!(called.contains("ZSCORE"), "{called:?}");
        for command in called {
            assert!(is_allowed(&command, &auditor), "{command}");
        }
        assert!(!is_allowed("SCAN", &daemons) && is_allowed("SCAN", &auditor));
        // It connects as they do, and may call their scripts to mend. It publishes nothing.
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
