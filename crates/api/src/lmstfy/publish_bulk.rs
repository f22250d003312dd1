//! `PUT /api/NAMESPACE/QUEUE/bulk`: stores up to 64 jobs, all or none.
//!
//! The body is a JSON array. The text of each element, byte for byte, is the body of a job.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tidegate_core::NewJob;
use tidegate_store::PUBLISH_JOBS_MAX;

use super::attributes::JobHeaders;
use super::error::ApiError;
use super::job_id::WireJobId;
use super::publish_answer::{self, StoredIds};
use super::publish_params::PublishParams;
use super::scope::PublishScope;
use crate::app::App;
use crate::config::RequestLimits;
use crate::http::off_runtime::off_runtime;
use crate::http::request::ApiRequest;
use crate::spans::PublishSpan;

pub(super) async fn publish_bulk(
    app: Arc<App>,
    api_request: ApiRequest,
) -> Result<Response<Body>, ApiError> {
    let scope = PublishScope::open(&app, &api_request).await?;
    let params = PublishParams::read(&api_request.query(), &app.job_defaults())?;
    let ApiRequest {
        head,
        body,
        context,
        ..
    } = api_request;
    let body = app.bulk_body.read(body).await?;
    let (length, limits) = (body.bytes.len(), app.request_limits.clone());
    // The body is kept until the answer, as it is in memory until then and holds its share of the budget.
    let parse = move || (elements(&body.bytes, &limits), body);
    let (elements, _body) = off_runtime(&app.large_bodies, length, parse).await?;
    let elements = elements?;
    let extras = JobHeaders::read(&head.headers)?;
    let span = PublishSpan::begin(&app, &head.headers, &context);
    drop(head);
    let mut jobs: Vec<NewJob> = elements
        .into_iter()
        .map(|one| params.job(one, &extras))
        .collect();
    let count = jobs.len();
    if let Some(span) = &span {
        jobs.iter_mut().for_each(|job| span.add_to(job));
    }
    let published = scope.publish(&app, jobs, None).await;
    if let Some(span) = span {
        scope.end_span(span, count, &published);
    }
    let published = published?;
    let versioned = extras.versioned_id;
    let ids = published.ids()?.into_iter();
    let ids = ids.map(|id| WireJobId { id, versioned }).collect();
    let answer = publish_answer::answer(published.durability, StoredIds::JobIds(ids))?;
    scope.permit.keep();
    Ok(answer)
}

/// The texts of the elements of a JSON array, as slices of `array`.
///
/// # Errors
/// `array` is neither a JSON array nor null, has no elements or too many, or an element is too long.
pub(super) fn elements(array: &Bytes, limits: &RequestLimits) -> Result<Vec<Bytes>, ApiError> {
    let elements: Option<Elements<'_>> =
        serde_json::from_slice(array).map_err(|_| ApiError::NotAnArray)?;
    let elements = elements.unwrap_or_default();
    if elements.first.is_empty() {
        return Err(ApiError::NoJobs);
    }
    if elements.surplus || elements.first.len() > limits.bulk_jobs_max {
        return Err(ApiError::TooManyJobs);
    }
    if elements
        .first
        .iter()
        .any(|one| one.get().len() > limits.job_bytes_max)
    {
        return Err(ApiError::JobTooLarge);
    }
    let bytes = |one: &&RawValue| array.slice_ref(one.get().as_bytes());
    Ok(elements.first.iter().map(bytes).collect())
}

/// The first elements of an array, at most [`PUBLISH_JOBS_MAX`]. The others are parsed, because a syntax error in them
/// makes the body no array, but not stored, because there could be millions.
#[derive(Default)]
struct Elements<'a> {
    first: Vec<&'a RawValue>,
    surplus: bool,
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Elements::default();
        while elements.first.len() < PUBLISH_JOBS_MAX {
            match array.next_element()? {
                Some(element) => elements.first.push(element),
                None => return Ok(elements),
            }
        }
        while array.next_element::<IgnoredAny>()?.is_some() {
            elements.surplus = true;
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::SHIPPED;

    fn texts(array: &str) -> Result<Vec<String>, ApiError> {
        let text = |one: Bytes| String::from_utf8(one.to_vec()).unwrap();
        let found = elements(&Bytes::copy_from_slice(array.as_bytes()), &SHIPPED.requests)?;
        Ok(found.into_iter().map(text).collect())
    }

    #[test]
    fn elements_are_kept_byte_for_byte() {
        let found = texts(" [ \"a\\u0041\" , 1.50,null,true, { \"b\" :  [ ] } ]\n");
        let expected = ["\"a\\u0041\"", "1.50", "null", "true", "{ \"b\" :  [ ] }"];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn a_body_that_is_no_list_of_jobs_is_rejected() {
        for bad in ["", "{}", "\"a\"", "1", "[1", "[1,]", "[1] x", "[01]"] {
            assert_eq!(texts(bad), Err(ApiError::NotAnArray), "{bad}");
        }
        for empty in ["[]", " [ ] ", "null"] {
            assert_eq!(texts(empty), Err(ApiError::NoJobs), "{empty}");
        }
    }

    #[test]
    fn count_and_size_have_inclusive_limits() {
        let many = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(texts(&many(64)).unwrap().len(), 64);
        assert_eq!(texts(&many(65)), Err(ApiError::TooManyJobs));
        assert_eq!(
            texts(&many(65).replace(']', ",")),
            Err(ApiError::NotAnArray)
        );
        let long = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 2));
        assert_eq!(
            texts(&long(SHIPPED.requests.job_bytes_max)).unwrap().len(),
            1
        );
        assert_eq!(
            texts(&long(SHIPPED.requests.job_bytes_max + 1)),
            Err(ApiError::JobTooLarge)
        );
    }

    /// A JSON value with whitespace wherever it is allowed.
    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_filter_map("finite", |number| serde_json::to_string(&number).ok()),
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        ];
        leaf.prop_recursive(4, 20, 4, |inner| {
            let pair = (any::<String>(), inner.clone(), "[ \t\r\n]{0,2}");
            prop_oneof![
                prop::collection::vec(inner, 0..4)
                    .prop_map(|all| format!("[ {} ]", all.join(" ,\n"))),
                pair.prop_map(|(key, value, space)| {
                    let key = serde_json::to_string(&key).unwrap();
                    format!("{{{space}{key}{space}:{space}{value}{space}}}")
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_values_are_kept_byte_for_byte(values in prop::collection::vec(json(), 1..=20)) {
            let array = format!(" [ {} ]\n", values.join("\t, "));
            prop_assert_eq!(texts(&array), Ok(values));
        }

        #[test]
        fn accepted_bodies_are_arrays(
            values in prop::collection::vec(json(), 0..4), at: prop::sample::Index, byte: u8, is_cut: bool,
        ) {
            let mut array = format!("[{}]", values.join(",")).into_bytes();
            let at = at.index(array.len());
            array[at] = byte;
            if is_cut {
                array.truncate(at);
            }
            let taken = elements(&Bytes::from(array.clone()), &SHIPPED.requests);
            let parsed = serde_json::from_slice::<Option<Vec<&RawValue>>>(&array);
            match parsed {
                Err(_) => prop_assert_eq!(taken, Err(ApiError::NotAnArray)),
                Ok(None) => prop_assert_eq!(taken, Err(ApiError::NoJobs)),
                Ok(Some(all)) if all.is_empty() => prop_assert_eq!(taken, Err(ApiError::NoJobs)),
                Ok(Some(all)) => {
                    let all: Vec<Bytes> = all.iter().map(|one| Bytes::copy_from_slice(one.get().as_bytes())).collect();
                    prop_assert_eq!(taken, Ok(all));
                }
            }
        }
    }
}
