//! `PUT /api/NAMESPACE/QUEUE/bulk`: stores up to 64 jobs, all or none.
//!
//! The body is a JSON array. Each element is a job, byte for byte as it was written.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tidegate_core::NewJob;
use tidegate_store::PUBLISH_JOBS_MAX;

use super::attributes::Extras;
use super::error::Refusal;
use super::job_id::WireJobId;
use super::large::off_runtime;
use super::request::Asked;
use super::scope::PublishScope;
use super::stored_as::{self, StoredIds};
use super::terms::Terms;
use crate::app::App;
use crate::body::ReadBody;
use crate::config::RequestLimits;

#[derive(Serialize)]
struct Published<'a> {
    job_ids: &'a [WireJobId],
    msg: &'static str,
}

pub(super) async fn publish_bulk(app: Arc<App>, asked: Asked) -> Result<Response<Body>, Refusal> {
    let opened = PublishScope::open(&app, &asked).await?;
    let PublishScope {
        queue: scope,
        permit,
    } = opened;
    let terms = Terms::read(&asked.query(), &app.job_defaults())?;
    let Asked { head, body, .. } = asked;
    // The share is kept until the answer: the body is in memory as long.
    let ReadBody {
        bytes,
        share: _share,
    } = app.bulk_body.read(body).await?;
    let (length, limits) = (bytes.len(), app.requests.clone());
    let parse = move || elements(&bytes, &limits);
    let elements = off_runtime(&app.large_bodies, length, parse).await??;
    let extras = Extras::read(&head.headers)?;
    drop(head);
    let jobs: Vec<NewJob> = elements
        .into_iter()
        .map(|one| terms.job(one, &extras))
        .collect();
    let aim = app.aim(&scope.pool, &scope.queue.namespace);
    let stored = scope.pool.publish(&scope.queue, jobs, None, aim).await?;
    let versioned = extras.versioned_id;
    let ids = stored.ids.into_iter();
    let job_ids: Vec<WireJobId> = ids.map(|id| WireJobId { id, versioned }).collect();
    let published = Published {
        job_ids: &job_ids,
        msg: "published",
    };
    let answer = stored_as::answer(stored.durability, StoredIds::Many(&job_ids), &published)?;
    permit.keep();
    Ok(answer)
}

/// The texts of the elements of an array. They share the memory of the whole.
pub(super) fn elements(array: &Bytes, limits: &RequestLimits) -> Result<Vec<Bytes>, Refusal> {
    let elements: Option<Elements<'_>> =
        serde_json::from_slice(array).map_err(|_| Refusal::NotAnArray)?;
    let elements = elements.unwrap_or_default();
    if elements.first.is_empty() {
        return Err(Refusal::NoJobs);
    }
    if elements.surplus || elements.first.len() > limits.bulk_jobs_max {
        return Err(Refusal::TooManyJobs);
    }
    if elements
        .first
        .iter()
        .any(|one| one.get().len() > limits.job_bytes_max)
    {
        return Err(Refusal::JobTooLarge);
    }
    let bytes = |one: &&RawValue| array.slice_ref(one.get().as_bytes());
    Ok(elements.first.iter().map(bytes).collect())
}

/// The elements of an array, as many as may be. A longer one is read through, since a mistake further
/// on would make it no array at all, but it is not kept: it could have millions.
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

    fn texts(array: &str) -> Result<Vec<String>, Refusal> {
        let text = |one: Bytes| String::from_utf8(one.to_vec()).unwrap();
        let found = elements(
            &Bytes::copy_from_slice(array.as_bytes()),
            &RequestLimits::SHIPPED,
        )?;
        Ok(found.into_iter().map(text).collect())
    }

    #[test]
    fn elements_are_kept_byte_for_byte() {
        let found = texts(" [ \"a\\u0041\" , 1.50,null,true, { \"b\" :  [ ] } ]\n");
        let expected = ["\"a\\u0041\"", "1.50", "null", "true", "{ \"b\" :  [ ] }"];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn what_is_no_list_of_jobs_is_refused() {
        for bad in ["", "{}", "\"a\"", "1", "[1", "[1,]", "[1] x", "[01]"] {
            assert_eq!(texts(bad), Err(Refusal::NotAnArray), "{bad}");
        }
        for empty in ["[]", " [ ] ", "null"] {
            assert_eq!(texts(empty), Err(Refusal::NoJobs), "{empty}");
        }
    }

    #[test]
    fn count_and_size_have_inclusive_limits() {
        let many = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(texts(&many(64)).unwrap().len(), 64);
        assert_eq!(texts(&many(65)), Err(Refusal::TooManyJobs));
        assert_eq!(texts(&many(65).replace(']', ",")), Err(Refusal::NotAnArray));
        let long = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 2));
        assert_eq!(
            texts(&long(RequestLimits::SHIPPED.job_bytes_max))
                .unwrap()
                .len(),
            1
        );
        assert_eq!(
            texts(&long(RequestLimits::SHIPPED.job_bytes_max + 1)),
            Err(Refusal::JobTooLarge)
        );
    }

    /// A JSON value with spaces in any place.
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
        fn what_is_taken_is_an_array(
            values in prop::collection::vec(json(), 0..4), at: prop::sample::Index, byte: u8, is_cut: bool,
        ) {
            let mut array = format!("[{}]", values.join(",")).into_bytes();
            let at = at.index(array.len());
            array[at] = byte;
            if is_cut {
                array.truncate(at);
            }
            let taken = elements(&Bytes::from(array.clone()), &RequestLimits::SHIPPED);
            let parsed = serde_json::from_slice::<Option<Vec<&RawValue>>>(&array);
            match parsed {
                Err(_) => prop_assert_eq!(taken, Err(Refusal::NotAnArray)),
                Ok(None) => prop_assert_eq!(taken, Err(Refusal::NoJobs)),
                Ok(Some(all)) if all.is_empty() => prop_assert_eq!(taken, Err(Refusal::NoJobs)),
                Ok(Some(all)) => {
                    let all: Vec<Bytes> = all.iter().map(|one| Bytes::copy_from_slice(one.get().as_bytes())).collect();
                    prop_assert_eq!(taken, Ok(all));
                }
            }
        }
    }
}
