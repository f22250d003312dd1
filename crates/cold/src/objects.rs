//! The object store, and the segments of one deployment in it.

use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions, RetryConfig,
};
use tidegate_core::{ColdReference, JobId, Partition, SegmentName};
use tokio::time::timeout;
use url::Url;

use crate::error::ColdError;
use crate::http::PoolConnector;
use crate::segment::{ColdPayload, Segment, read_entry};

/// Time limit of a request for a whole segment, or a list. The client repeats failed requests within it.
const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Time limit of a request for one payload, for which a consumer waits.
const PAYLOAD_MAX: Duration = Duration::from_secs(2);

/// The object that shows that the folder of a deployment is the right one.
const MARKER: &str = "tidegate";
const MARKER_TEXT: &str = "Payloads of the cold tier of Tidegate: docs/cold-tier.md\n";

/// The segments of one deployment. Cheap to clone.
#[derive(Clone)]
pub struct ColdObjects {
    objects: Arc<dyn ObjectStore>,
    /// The folder of the deployment.
    root: Path,
}

/// A segment as the object store lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSegment {
    pub name: SegmentName,
    pub bytes: u64,
}

impl ColdObjects {
    /// The segments of a deployment below this url: `s3://bucket/folder`, `gs://bucket/folder`, `az://container/folder`,
    /// or `file:///folder`. Makes no request. Credentials and further options come from the environment, with the
    /// names that the object store's own tools use, such as `AWS_ACCESS_KEY_ID`.
    ///
    /// # Errors
    /// The url names no object store, or an option is missing.
    pub fn open(url: &str, deployment_id: &str) -> Result<Self, ColdError> {
        let bad = |why: &dyn fmt::Display| ColdError::BadUrl(format!("{url:?}: {why}"));
        let parsed = Url::parse(url).map_err(|error| bad(&error))?;
        let (scheme, folder) = ObjectStoreScheme::parse(&parsed).map_err(|error| bad(&error))?;
        let objects: Arc<dyn ObjectStore> = match scheme {
            // A segment that is lost with the power is a lost job.
            ObjectStoreScheme::Local => Arc::new(LocalFileSystem::new().with_fsync(true)),
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::from_env().with_url(url);
                let builder = builder
                    .with_http_connector(PoolConnector)
                    .with_retry(retries());
                Arc::new(builder.build().map_err(|error| bad(&error))?)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(url);
                let builder = builder
                    .with_http_connector(PoolConnector)
                    .with_retry(retries());
                Arc::new(builder.build().map_err(|error| bad(&error))?)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(url);
                let builder = builder
                    .with_http_connector(PoolConnector)
                    .with_retry(retries());
                Arc::new(builder.build().map_err(|error| bad(&error))?)
            }
            _ => return Err(bad(&"begin it with s3://, gs://, az:// or file://")),
        };
        Ok(Self {
            objects,
            root: folder.join(deployment_id),
        })
    }

    /// Checks that this is the object store that was used before: it has a marker, which is written at the first use.
    /// A folder that is not mounted lists no segments, as if all payloads were back.
    ///
    /// # Errors
    /// The object store failed, or has no marker.
    pub async fn check_marker(&self, is_first_use: bool) -> Result<(), ColdError> {
        let path = self.root.clone().join(MARKER);
        let reading = async { self.objects.get(&path).await?.bytes().await };
        match bounded(REQUEST_MAX, &path, reading).await {
            Ok(_) => Ok(()),
            Err(ColdError::Missing(_)) if is_first_use => {
                let putting = self.objects.put(&path, MARKER_TEXT.into());
                bounded(REQUEST_MAX, &path, putting).await.map(drop)
            }
            Err(ColdError::Missing(_)) => Err(ColdError::NoMarker(path)),
            Err(error) => Err(error),
        }
    }

    /// Writes a segment.
    ///
    /// # Errors
    /// The object store failed. Perhaps there is an object now; nothing refers to it.
    pub async fn put(&self, segment: &Segment) -> Result<(), ColdError> {
        let path = self.path(segment.name);
        // Names are random. One that is taken must not lose the payloads that it has.
        let options = PutOptions::from(PutMode::Create);
        let putting = self
            .objects
            .put_opts(&path, segment.bytes.clone().into(), options);
        bounded(REQUEST_MAX, &path, putting).await?;
        Ok(())
    }

    /// The partitions that have segments, in the order of time.
    ///
    /// # Errors
    /// The object store failed.
    pub async fn partitions(&self) -> Result<BTreeSet<Partition>, ColdError> {
        let listing = self.objects.list_with_delimiter(Some(&self.root));
        let listed = bounded(REQUEST_MAX, &self.root, listing).await?;
        let folders = listed.common_prefixes.iter();
        Ok(folders
            .filter_map(|folder| folder.filename()?.parse().ok())
            .collect())
    }

    /// The segments of a partition, or of all.
    ///
    /// # Errors
    /// The object store failed.
    pub async fn segments(
        &self,
        partition: Option<Partition>,
    ) -> Result<Vec<StoredSegment>, ColdError> {
        let folder = match partition {
            Some(partition) => self.root.clone().join(partition.to_string()),
            None => self.root.clone(),
        };
        let mut listing = self.objects.list(Some(&folder));
        let mut segments = Vec::new();
        // A list of many objects is several requests.
        while let Some(object) = bounded(REQUEST_MAX, &folder, listing.try_next()).await? {
            segments.extend(self.segment(&object));
        }
        Ok(segments)
    }

    /// The segment that an object is; `None` if it is something else.
    fn segment(&self, object: &ObjectMeta) -> Option<StoredSegment> {
        let mut parts = object.location.prefix_match(&self.root)?;
        let (partition, name) = (parts.next()?, parts.next()?);
        let name = format!("{}/{}", partition.as_ref(), name.as_ref());
        Some(StoredSegment {
            name: name.parse().ok()?,
            bytes: object.size,
        })
    }

    /// Reads a whole segment.
    ///
    /// # Errors
    /// The object store failed, or has no such segment.
    pub async fn read(&self, name: SegmentName) -> Result<Bytes, ColdError> {
        let path = self.path(name);
        let reading = async { self.objects.get(&path).await?.bytes().await };
        bounded(REQUEST_MAX, &path, reading).await
    }

    /// Reads the payload of this job, within 2 s.
    ///
    /// # Errors
    /// The object store failed, or the payload is not there, or damaged.
    pub async fn read_payload(
        &self,
        id: JobId,
        reference: ColdReference,
    ) -> Result<Bytes, ColdError> {
        let path = self.path(reference.segment);
        let begin = u64::from(reference.offset);
        let range = begin..begin + u64::from(reference.bytes);
        let end = range.end;
        let reading = bounded(PAYLOAD_MAX, &path, self.objects.get_range(&path, range)).await;
        let entry = match reading {
            Err(ColdError::Unavailable(_)) if self.is_shorter(&path, end).await => {
                return Err(ColdError::Damaged {
                    object: path.to_string(),
                    how: "it was cut",
                });
            }
            reading => reading?,
        };
        match read_entry(reference, &entry)? {
            ColdPayload {
                id: found, payload, ..
            } if found == id => Ok(payload),
            _ => Err(ColdError::Damaged {
                object: path.to_string(),
                how: "the entry is of another job",
            }),
        }
    }

    /// Deletes these segments; some may be gone already.
    ///
    /// # Errors
    /// The object store failed; some may be deleted.
    pub async fn delete(&self, names: &[SegmentName]) -> Result<(), ColdError> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(*name))).collect();
        let deleting = self
            .objects
            .delete_stream(futures_util::stream::iter(paths).boxed())
            .filter(|deleted| {
                ready(!matches!(
                    deleted,
                    Err(object_store::Error::NotFound { .. })
                ))
            })
            .try_for_each(async |_| Ok(()));
        bounded(REQUEST_MAX, &self.root, deleting).await
    }

    /// Whether an object certainly has fewer bytes.
    async fn is_shorter(&self, path: &Path, bytes: u64) -> bool {
        let head = bounded(PAYLOAD_MAX, path, self.objects.head(path)).await;
        head.is_ok_and(|object| object.size < bytes)
    }

    fn path(&self, name: SegmentName) -> Path {
        let name = name.to_string();
        let parts = name.split('/');
        parts.fold(self.root.clone(), |path, part| path.join(part))
    }
}

impl fmt::Debug for ColdObjects {
    /// Omits the options of the object store, which may be credentials.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ColdObjects({})", self.root)
    }
}

/// The client repeats requests that failed, within the time limit of the caller.
fn retries() -> RetryConfig {
    RetryConfig {
        max_retries: 3,
        retry_timeout: REQUEST_MAX,
        ..RetryConfig::default()
    }
}

async fn bounded<T>(
    limit: Duration,
    path: &Path,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T, ColdError> {
    match timeout(limit, request).await {
        Ok(result) => result.map_err(|error| ColdError::of_object(path, error)),
        Err(_) => Err(ColdError::TimedOut(limit)),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::segment::SegmentBuilder;

    fn open(folder: &TempDir, deployment_id: &str) -> ColdObjects {
        let url = format!("file://{}/cold", folder.path().display());
        ColdObjects::open(&url, deployment_id).unwrap()
    }

    fn segment(partition: u32, number: u32) -> Segment {
        let mut builder = SegmentBuilder::default();
        assert!(builder.push(JobId::new(1, 2, 3, 4), b"payload"));
        builder.finish(Partition(partition), number)
    }

    #[tokio::test]
    async fn segments_of_a_folder_are_written_listed_read_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let objects = open(&folder, "one");
        assert_eq!(objects.partitions().await.unwrap(), BTreeSet::new());
        let other = objects.check_marker(false).await;
        assert!(matches!(other, Err(ColdError::NoMarker(_))), "{other:?}");
        objects.check_marker(true).await.unwrap();
        objects.check_marker(false).await.unwrap();
        let (first, second) = (segment(0xA, 1), segment(0xB, 2));
        objects.put(&first).await.unwrap();
        objects.put(&second).await.unwrap();
        let taken = objects.put(&first).await;
        assert!(matches!(taken, Err(ColdError::Unavailable(_))), "{taken:?}");

        let partitions = objects.partitions().await.unwrap();
        assert_eq!(Vec::from_iter(partitions), [Partition(0xA), Partition(0xB)]);
        let listed = objects.segments(Some(Partition(0xA))).await.unwrap();
        let bytes = first.bytes.len() as u64;
        let name = first.name;
        assert_eq!(listed, [StoredSegment { name, bytes }]);
        assert_eq!(objects.segments(None).await.unwrap().len(), 2);
        assert_eq!(objects.read(name).await.unwrap(), first.bytes);
        assert!(
            open(&folder, "other")
                .partitions()
                .await
                .unwrap()
                .is_empty()
        );

        objects.delete(&[name]).await.unwrap();
        objects.delete(&[name, second.name]).await.unwrap();
        objects.put(&second).await.unwrap();
        let gone = objects.read(name).await;
        assert!(matches!(gone, Err(ColdError::Missing(_))), "{gone:?}");
        let left = objects.segments(None).await.unwrap();
        assert_eq!(left.len(), 1);
    }

    #[tokio::test]
    async fn a_payload_is_read_for_its_own_job_only() {
        let folder = tempfile::tempdir().unwrap();
        let objects = open(&folder, "one");
        let segment = segment(1, 1);
        objects.put(&segment).await.unwrap();
        let reference = segment.references[0];
        let id = JobId::new(1, 2, 3, 4);
        let payload = objects.read_payload(id, reference).await.unwrap();
        assert_eq!(payload, "payload");
        let other = objects
            .read_payload(JobId::new(1, 2, 3, 5), reference)
            .await;
        assert!(other.unwrap_err().is_lasting());
        let mut elsewhere = reference;
        elsewhere.offset += 1;
        let moved = objects.read_payload(id, elsewhere).await;
        assert!(moved.is_err(), "{moved:?}");
    }

    #[test]
    fn urls_of_object_stores_are_accepted() {
        for url in ["s3://bucket/jobs", "gs://bucket", "az://container/jobs"] {
            let opened = ColdObjects::open(url, "id");
            // Azure needs the name of an account.
            let is_fine = opened.is_ok() || url.starts_with("az");
            assert!(is_fine, "{url}: {opened:?}");
        }
        for url in ["", "jobs", "/var/lib", "memory:///", "http://host/path"] {
            let opened = ColdObjects::open(url, "id");
            assert!(matches!(opened, Err(ColdError::BadUrl(_))), "{url}");
        }
    }
}
