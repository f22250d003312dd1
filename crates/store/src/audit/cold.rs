//! Checks that the segments exist to which jobs refer whose payloads are in the cold tier.

use std::collections::{BTreeMap, HashMap};

use tidegate_core::{ColdReference, JobId, SegmentName};

use super::finding::Inconsistency;
use super::report::AuditReport;
use crate::error::StoreError;
use crate::store::Store;

/// The segments to which jobs refer.
#[derive(Default)]
pub(super) struct ReferredSegments(BTreeMap<SegmentName, ReferredSegment>);

/// Jobs of a segment that are looked at again before it is a finding: some may have changed meanwhile.
const EXAMPLES_MAX: usize = 8;

/// A segment, how many jobs refer to it, and how many bytes it must have.
#[derive(Default)]
struct ReferredSegment {
    jobs: u64,
    end: u64,
    examples: Vec<(JobId, ColdReference)>,
}

impl ReferredSegments {
    pub(super) fn add(&mut self, job: JobId, reference: ColdReference) {
        let segment = self.0.entry(reference.segment).or_default();
        segment.jobs += 1;
        let end = u64::from(reference.offset) + u64::from(reference.bytes);
        segment.end = segment.end.max(end);
        if segment.examples.len() < EXAMPLES_MAX || segment.end == end {
            segment.examples.truncate(EXAMPLES_MAX - 1);
            segment.examples.push((job, reference));
        }
    }
}

impl Store {
    /// Lists the object store after all records were read: a segment is written before the first reference to it.
    pub(super) async fn audit_segments(
        &self,
        referred: ReferredSegments,
        report: &mut AuditReport<'_>,
    ) -> Result<(), StoreError> {
        if referred.0.is_empty() {
            return Ok(());
        }
        let listed = match self.cold_objects() {
            None => Err("this process has no cold_url".to_owned()),
            Some(objects) => objects.segments(None).await.map_err(|it| it.to_string()),
        };
        let listed: HashMap<SegmentName, u64> = match listed {
            Ok(segments) => segments.iter().map(|it| (it.name, it.bytes)).collect(),
            Err(why) => {
                tracing::warn!(%why, segments = referred.0.len(), "payloads in the cold tier are not checked");
                report.summary.segments_not_checked = referred.0.len() as u64;
                return Ok(());
            }
        };
        for (name, segment) in referred.0 {
            let is_there = listed.get(&name).is_some_and(|bytes| segment.end <= *bytes);
            // Its jobs may have their payloads back by now, and then the segment may be deleted.
            if !is_there && self.is_referred_to(&segment.examples).await? {
                let (segment, jobs) = (name, segment.jobs);
                report.found(None, Inconsistency::NoSegment { segment, jobs }, false);
            }
        }
        Ok(())
    }

    /// Whether one of these jobs has its reference now.
    async fn is_referred_to(&self, jobs: &[(JobId, ColdReference)]) -> Result<bool, StoreError> {
        for (job, reference) in jobs {
            let parts = self.record_parts(*job).await?;
            if parts.is_some_and(|parts| parts.cold == Some(*reference)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
