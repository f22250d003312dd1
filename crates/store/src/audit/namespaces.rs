//! Compares how many names each namespace counts in a hash, for its limits, with the names that it has there.
//!
//! Names are added and removed meanwhile, so a difference is only a doubt. Then the names of the namespace are read
//! again, between two looks at its count and at the field `#`, which changes with each name that is added. If both
//! looks see the same, nothing changed.

mod counted_names;

use redis::Cmd;
use tidegate_core::Namespace;
use tidegate_core::keys;
use tokio::time::sleep;

use super::bucket::COMMANDS_PER_CALL;
use super::finding::Inconsistency;
use super::records::Fields;
use super::report::{AuditOptions, AuditReport};
use crate::error::StoreError;
use crate::store::Store;
use crate::verbs::{CheckOutcome, NamespaceCount};

use counted_names::CountedNames;

/// How often a namespace is read again whose names change meanwhile.
const LOOKS: usize = 20;

/// The tables of a deployment that count names.
const TABLES: [&str; 3] = [keys::POLICIES, keys::QUEUE_LIMITS, keys::RELAYS];

impl Store {
    /// Checks the counts of the tables of the deployment, unless only some buckets are audited.
    pub(super) async fn audit_tables(
        &self,
        options: &AuditOptions,
        report: &mut AuditReport<'_>,
    ) -> Result<(), StoreError> {
        if !options.buckets.is_empty() {
            return Ok(());
        }
        for table in TABLES {
            if self.has_hash(table, report).await? {
                self.audit_namespaces(None, table, options, report).await?;
            }
        }
        Ok(())
    }

    /// Checks the counts of a hash: a table, or the queues of a bucket.
    pub(super) async fn audit_namespaces(
        &self,
        bucket: Option<u16>,
        table: &str,
        options: &AuditOptions,
        report: &mut AuditReport<'_>,
    ) -> Result<(), StoreError> {
        for namespace in self.names_in(table, "*", options).await?.doubtful() {
            let wrong = self.check_count(table, &namespace, options).await?;
            let Some((count, is_repaired)) = wrong else {
                continue;
            };
            let defect = Inconsistency::WrongNamespaceCount {
                key: table.to_owned(),
                namespace: namespace.to_string(),
                counted: String::from_utf8_lossy(&count.counted).into_owned(),
                names: count.names,
            };
            report.found(bucket, defect, is_repaired);
        }
        Ok(())
    }

    /// The count of a namespace, if it is wrong, and whether it was corrected. A namespace whose names change during
    /// each look is left to a later audit.
    async fn check_count(
        &self,
        table: &str,
        namespace: &Namespace,
        options: &AuditOptions,
    ) -> Result<Option<(NamespaceCount, bool)>, StoreError> {
        for _ in 0..LOOKS {
            let look = self.look_at_count(table, namespace, options).await?;
            let Some((last, count)) = look else {
                continue;
            };
            if count.is_right() {
                return Ok(None);
            }
            if !options.repair {
                return Ok(Some((count, false)));
            }
            let outcome = self
                .audit_namespace(table, namespace, &last, &count)
                .await?;
            if outcome == CheckOutcome::Repaired {
                return Ok(Some((count, true)));
            }
        }
        Ok(None)
    }

    /// The field `#`, and count and names of a namespace at one moment; `None` if they may have changed meanwhile.
    async fn look_at_count(
        &self,
        table: &str,
        namespace: &Namespace,
        options: &AuditOptions,
    ) -> Result<Option<(Vec<u8>, NamespaceCount)>, StoreError> {
        let field = format!("{namespace}/");
        let look = Cmd::hmget(table, &["#", &field]);
        let before: [Option<Vec<u8>>; 2] = self.command(&look).await?;
        let names = self.names_in(table, &format!("{field}*"), options).await?;
        let after: [Option<Vec<u8>>; 2] = self.command(&look).await?;
        let [last, _] = &before;
        let is_settled = before == after;
        Ok(is_settled.then(|| (last.clone().unwrap_or_default(), names.count(namespace))))
    }

    /// The names that match a pattern, as they are while they are read.
    async fn names_in(
        &self,
        table: &str,
        pattern: &str,
        options: &AuditOptions,
    ) -> Result<CountedNames, StoreError> {
        let mut names = CountedNames::default();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(table).arg(cursor).arg("MATCH").arg(pattern);
            scan.arg("COUNT").arg(COMMANDS_PER_CALL);
            let (next, fields): (u64, Fields) = self.large_command(&scan).await?;
            for (field, value) in fields {
                names.add(&field, &value);
            }
            sleep(options.pause).await;
            if next == 0 {
                return Ok(names);
            }
            cursor = next;
        }
    }
}
