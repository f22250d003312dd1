//! The answer to a publish whose jobs are stored, with the durability they have reached.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use tidegate_core::Durability;
use tidegate_store::DurabilityError;

use super::job_id::WireJobId;
use crate::http::json;

/// The durability that was confirmed, for publishes that wait for more than memory.
const DURABILITY: HeaderName = HeaderName::from_static("x-durability");

/// The ids of stored jobs, in the form of their route. The field of the JSON body has the name of the variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredIds {
    /// For a route that stores one job.
    JobId(WireJobId),
    /// For a route that stores several.
    JobIds(Vec<WireJobId>),
}

/// The answer 201.
#[derive(Serialize)]
struct PublishedBody {
    #[serde(flatten)]
    ids: StoredIds,
    msg: &'static str,
}

/// The answer 504: the jobs are stored, but the requested durability was not confirmed in time. It has the ids of the
/// jobs, so that a client that publishes again can find the duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NotDurableBody {
    error: String,
    #[serde(flatten)]
    ids: StoredIds,
    #[serde(skip)]
    reached: Durability,
}

/// The answer `published` with 201, and with the header `X-Durability` if the publish waited for more than memory.
///
/// # Errors
/// The durability was not confirmed in time.
pub(super) fn answer(
    durability: Result<Durability, DurabilityError>,
    ids: StoredIds,
) -> Result<Response<Body>, Box<NotDurableBody>> {
    let reached = match durability {
        Ok(reached) => reached,
        Err(missed) => return Err(NotDurableBody::new(&missed, ids).into()),
    };
    let msg = "published";
    let answer = json::answer(StatusCode::CREATED, &PublishedBody { ids, msg });
    Ok(match reached.is_memory() {
        true => answer,
        false => with_durability_header(answer, reached),
    })
}

impl NotDurableBody {
    fn new(missed: &DurabilityError, ids: StoredIds) -> Self {
        tracing::debug!(%missed, "stored jobs without the requested durability: it was not confirmed in time");
        let (wanted, reached) = (missed.wanted, missed.reached);
        Self {
            error: format!("stored, but {wanted} was not confirmed in time, only {reached}"),
            ids,
            reached,
        }
    }

    pub(super) fn answer(&self, status: StatusCode) -> Response<Body> {
        with_durability_header(json::answer(status, self), self.reached)
    }
}

fn with_durability_header(mut response: Response<Body>, reached: Durability) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(&reached.to_string()) {
        response.headers_mut().insert(DURABILITY, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_field_of_their_route() {
        let text = "01JD00000000000000000000ZZ";
        let id: WireJobId = text.parse().unwrap();
        let line = |ids| {
            let msg = "published";
            String::from_utf8(json::compact(&PublishedBody { ids, msg })).unwrap()
        };
        assert_eq!(
            line(StoredIds::JobId(id)),
            format!(r#"{{"job_id":"{text}","msg":"published"}}"#)
        );
        assert_eq!(
            line(StoredIds::JobIds(vec![id, id])),
            format!(r#"{{"job_ids":["{text}","{text}"],"msg":"published"}}"#)
        );
        let less = NotDurableBody {
            error: "e".to_owned(),
            ids: StoredIds::JobId(id),
            reached: Durability::default(),
        };
        assert_eq!(
            String::from_utf8(json::compact(&less)).unwrap(),
            format!(r#"{{"error":"e","job_id":"{text}"}}"#)
        );
    }
}
