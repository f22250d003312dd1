//! Checks of the payloads of a bucket.

use bytes::Bytes;
use tidegate_core::codec::{InvalidRecord, RecordFlags, RecordParts};
use tidegate_core::keys::BucketKey;

use super::bucket::BucketAudit;
use super::finding::Inconsistency;
use super::records::{ReadJob, Records};
use crate::error::StoreError;
use crate::verbs::JobCheck;

impl BucketAudit<'_> {
    /// Checks that payloads can be decoded, in their records and in keys of their own. Of payloads in
    /// the cold tier it notes the segments.
    pub(super) async fn check_payloads(
        &mut self,
        page: &[ReadJob],
        records: &mut Records,
    ) -> Result<(), StoreError> {
        for job in page {
            let mut parts = match RecordParts::split(&job.record) {
                Ok(parts) => parts,
                Err(bad) => {
                    self.corrupt(job.number, &job.record, bad).await?;
                    continue;
                }
            };
            if let Some(reference) = parts.cold {
                let id = self.id_of(job);
                self.segments.add(id, reference);
                continue;
            }
            if job.header.flags.has(RecordFlags::BODY_OUTSIDE) {
                records.outside.insert(job.number);
                let get = redis::Cmd::get(self.name(&BucketKey::Body(job.number)));
                let Some(body) = self.command::<Option<Bytes>>(&get).await? else {
                    let id = self.id_of(job);
                    self.look_at(job, JobCheck::Body, Inconsistency::NoBody { id })
                        .await?;
                    continue;
                };
                parts.payload = body;
            }
            if let Err(bad) = parts.decode(self.bucket, job.number) {
                self.check_at_once(job, bad).await?;
            }
        }
        Ok(())
    }

    /// Checks a job whose payload does not fit its record. A job with a key may have been replaced after its record was
    /// read, also by a version with the same header: both are read again in one step.
    async fn check_at_once(&mut self, job: &ReadJob, bad: InvalidRecord) -> Result<(), StoreError> {
        if !job.header.flags.has(RecordFlags::BODY_OUTSIDE) {
            return self.corrupt(job.number, &job.record, bad).await;
        }
        let number = job.number;
        let (chunk, field) = self.names.record(number);
        let mut commands = redis::pipe();
        commands.atomic();
        commands.hget(chunk, field);
        commands.get(self.name(&BucketKey::Body(number)));
        let (record, body): (Option<Bytes>, Option<Bytes>) = self.commands(&commands).await?;
        let Some(record) = record else {
            return Ok(());
        };
        let whole = RecordParts::split(&record).and_then(|mut parts| {
            if parts.cold.is_some() {
                return Ok(());
            }
            if parts.header.flags.has(RecordFlags::BODY_OUTSIDE) {
                parts.payload = body.unwrap_or_default();
            }
            parts.decode(self.bucket, number).map(drop)
        });
        match whole {
            Ok(()) => Ok(()),
            Err(bad) => self.corrupt(number, &record, bad).await,
        }
    }
}
