//! Compares the definitions of schedules with the ticks in the buckets of their queues.
//!
//! A definition and its tick are on different servers, and change one after the other. So a schedule is a finding if it
//! was inconsistent, in the same way, in all looks of 10 s. A bucket that has to look at a schedule within minutes is
//! consistent with any definition: the pump that leads it corrects the tick then.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Namespace;
use tidegate_core::keys::{self, BucketKey};
use tokio::time::sleep;

use super::bucket::{BucketAudit, PlacedSchedule};
use super::finding::Inconsistency;
use super::report::{AuditOptions, AuditReport, RECHECK_PAUSE, RECHECKS};
use crate::error::StoreError;
use crate::schedules::ScheduleDefinition;
use crate::store::Store;
use crate::table::{NamespacedName, Row};

/// How long a pump may be about to look at a schedule, in ms: twice the longest pause after a definition that it could
/// not read.
const SOON_MS: u64 = 120_000;

/// The stored definition and tick of a schedule.
struct ScheduleLook {
    now_ms: u64,
    /// Its definition, if that belongs to the bucket.
    defined: Option<Row<ScheduleDefinition>>,
    /// Whether the bucket has a hash of it.
    is_known: bool,
    /// The revision that the tick was calculated for.
    revision: Option<String>,
    tick_ms: Option<u64>,
    /// When a pump looks at it.
    look_at_ms: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScheduleDefect {
    NotDue,
    Orphaned,
}

impl ScheduleLook {
    fn defect(&self) -> Option<ScheduleDefect> {
        let look_at_ms = self.look_at_ms.unwrap_or(u64::MAX);
        if look_at_ms <= self.now_ms.saturating_add(SOON_MS) {
            return None;
        }
        let Some(stored) = &self.defined else {
            let is_there = self.is_known || self.look_at_ms.is_some();
            return is_there.then_some(ScheduleDefect::Orphaned);
        };
        let is_current = stored.revision.map(|it| it.to_string()) == self.revision;
        let next_ms = match &stored.value {
            Ok(definition) if is_current => {
                let next_ms = definition.times.next_after(self.now_ms).ok().flatten();
                self.tick_ms.or(next_ms)
            }
            _ => Some(self.now_ms),
        };
        let is_late = next_ms.is_some_and(|next_ms| look_at_ms > next_ms);
        is_late.then_some(ScheduleDefect::NotDue)
    }
}

impl BucketAudit<'_> {
    /// The schedules that the bucket knows. Names that are none are reported.
    pub(super) async fn known_schedules(&mut self) -> Result<Vec<PlacedSchedule>, StoreError> {
        let keys = self.keys.others.iter();
        let of_schedules: Vec<BucketKey> =
            keys.filter(|key| is_of_schedules(key)).cloned().collect();
        // The names, each with a key that has it.
        let mut names: BTreeMap<String, BucketKey> = BTreeMap::new();
        for key in of_schedules {
            match &key {
                BucketKey::Schedule(name) => {
                    names.insert(name.clone(), key);
                }
                BucketKey::Ticks(namespace) => {
                    let ticks: Vec<(Vec<u8>, f64)> = self.scan("ZSCAN", &key).await?;
                    for (name, _) in ticks {
                        let name = String::from_utf8_lossy(&name);
                        names.insert(format!("{namespace}/{name}"), key.clone());
                    }
                }
                _ => {}
            }
        }
        let mut known = Vec::new();
        for (name, key) in names {
            match NamespacedName::try_from(&*name) {
                Ok(key) => known.push((self.bucket, key)),
                Err(_) => self.found(
                    Inconsistency::UnknownField {
                        key: self.name(&key),
                        field: name,
                    },
                    false,
                ),
            }
        }
        Ok(known)
    }
}

fn is_of_schedules(key: &BucketKey) -> bool {
    matches!(key, BucketKey::Schedule(_) | BucketKey::Ticks(_))
}

impl Store {
    /// The schedules that are defined in these namespaces. Tables of another type are reported.
    pub(super) async fn defined_schedules(
        &self,
        namespaces: BTreeSet<Namespace>,
        report: &mut AuditReport<'_>,
    ) -> Result<Vec<PlacedSchedule>, StoreError> {
        let mut defined = Vec::new();
        for namespace in namespaces {
            let table = keys::schedules(namespace.as_str());
            if !self.has_hash(&table, report).await? {
                continue;
            }
            for (key, row) in self.schedules().table.of(&namespace).await? {
                // Which bucket a damaged definition belongs to is not known. A client that reads it learns of the
                // damage.
                if let Some(queue) = row.queue(&namespace) {
                    defined.push((self.bucket_of(&queue), key));
                }
            }
        }
        Ok(defined)
    }

    /// Checks that pumps look at these schedules in time.
    pub(super) async fn audit_schedules(
        &self,
        options: &AuditOptions,
        schedules: BTreeSet<PlacedSchedule>,
        report: &mut AuditReport<'_>,
    ) -> Result<(), StoreError> {
        let mut doubtful = Vec::new();
        for (bucket, key) in schedules {
            if let Some(defect) = self.look_at_schedule(bucket, &key).await? {
                doubtful.push((bucket, key, defect));
            }
            sleep(options.pause).await;
        }
        for _ in 0..RECHECKS {
            if doubtful.is_empty() {
                return Ok(());
            }
            sleep(RECHECK_PAUSE).await;
            let mut still = Vec::new();
            for (bucket, key, defect) in doubtful {
                if self.look_at_schedule(bucket, &key).await? == Some(defect) {
                    still.push((bucket, key, defect));
                }
            }
            doubtful = still;
        }
        for (bucket, key, defect) in doubtful {
            if options.repair {
                self.schedule_check_in(bucket, &key).await?;
            }
            let schedule = key.to_string();
            let defect = match defect {
                ScheduleDefect::NotDue => Inconsistency::ScheduleNotDue { schedule },
                ScheduleDefect::Orphaned => Inconsistency::OrphanedSchedule { schedule },
            };
            report.found(Some(bucket), defect, options.repair);
        }
        Ok(())
    }

    /// The apparent defect of a schedule: its definition may change before its tick is read.
    async fn look_at_schedule(
        &self,
        bucket: u16,
        key: &NamespacedName,
    ) -> Result<Option<ScheduleDefect>, StoreError> {
        let names = self.keys(bucket);
        let stored = match self.schedules().get(key).await {
            // The table has another type, which is reported where all tables are read.
            Err(StoreError::Corrupt(_)) => return Ok(None),
            stored => stored?,
        };
        let is_here = |stored: &Row<ScheduleDefinition>| {
            let queue = stored.queue(&key.namespace);
            // A damaged definition may belong to any bucket.
            queue.is_none_or(|queue| self.bucket_of(&queue) == bucket)
        };
        let mut looks = redis::pipe();
        let of_schedule = names.schedule(&key.to_string());
        looks.atomic();
        looks.cmd("EXISTS").arg(&of_schedule);
        looks.hmget(&of_schedule, &["revision", "tick"]);
        let namespace = key.namespace.as_str();
        looks.zscore(names.ticks(namespace), &key.name);
        looks.zscore(names.schedules(), namespace);
        type Text = Option<Vec<u8>>;
        type Looks = (bool, (Text, Text), Text, Text);
        let (is_known, (revision, tick), score, of_namespace): Looks =
            match self.read(&names.schedules(), &looks).await {
                // A key has another type, which is reported where the keys of the bucket are read.
                Err(StoreError::Corrupt(_)) => return Ok(None),
                looks => looks?,
            };
        let text = |bytes: Text| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let number = |bytes: Text| text(bytes).and_then(|text| text.parse().ok());
        // A turn, below 0, is soon.
        let time = |score: Text| {
            let at_ms: i64 = text(score)?.parse().ok()?;
            u64::try_from(at_ms.max(0)).ok()
        };
        let look = ScheduleLook {
            now_ms: self.bucket_now_ms(bucket).await?,
            defined: stored.filter(is_here),
            is_known,
            revision: text(revision),
            tick_ms: number(tick),
            // A pump finds it by its namespace.
            look_at_ms: time(score)
                .zip(time(of_namespace))
                .map(|(at, of_all)| at.max(of_all)),
        };
        Ok(look.defect())
    }
}
