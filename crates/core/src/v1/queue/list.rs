//! Lists of queues.

use serde::{Deserialize, Serialize};

use super::view::QueueView;
use crate::QueueKey;
use crate::v1::input::CheckedRequest;
use crate::v1::problem::InvalidRequest;
use crate::v1::values::{CursorText, PageSize};

/// The parameters of a list without filters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListQuery {
    /// Where the list continues: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<CursorText>,
    /// How many items a page has at most. It may have fewer, even none, and still not be the last one.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", param(required = false))]
    pub limit: PageSize,
}

impl ListQuery {
    /// Whether it has a parameter with this name. A list with a filter has others as well.
    pub fn has_parameter(name: &str) -> bool {
        matches!(name, "cursor" | "limit")
    }

    /// The queue behind which a list of queues of several namespaces continues.
    ///
    /// # Errors
    /// The cursor is no `next` of such a list.
    pub fn queue_cursor(&self) -> Result<Option<QueueKey>, InvalidRequest> {
        let cursor = self.cursor.as_ref();
        let queue = cursor.map(|cursor| QueueKey::try_from(cursor.as_str()));
        queue.transpose().map_err(|_| {
            InvalidRequest::of_field("cursor", "send the cursor as `next` of the page before")
        })
    }
}

impl CheckedRequest for ListQuery {}

/// A page of a list of queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueListPage {
    /// The queues of this page, sorted by name. The pages are in no order.
    pub items: Vec<QueueView>,
    /// The cursor of the next page; `null` at the end of the list.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next: Option<CursorText>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::ConfigurableLimits;
    use crate::v1::input::read_query;

    fn read<T: CheckedRequest>(pairs: &[(&str, &str)]) -> Result<T, InvalidRequest> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        read_query(&pairs, &ConfigurableLimits::default())
    }

    #[test]
    fn lists_of_queues_have_pages() {
        let first: ListQuery = read(&[]).unwrap();
        assert_eq!((first.limit.get(), first.cursor), (100, None));
        let second: ListQuery = read(&[("cursor", "abc"), ("limit", "1000")]).unwrap();
        assert_eq!(
            (second.limit.get(), second.cursor.unwrap().as_str()),
            (1000, "abc")
        );
        for (name, value) in [
            ("limit", "0"),
            ("limit", "1001"),
            ("cursor", ""),
            ("page", "2"),
        ] {
            let error = read::<ListQuery>(&[(name, value)]).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(name));
        }
    }

    #[test]
    fn the_last_page_has_no_next() {
        let last = json!({"items": [], "next": null});
        let read: QueueListPage = serde_json::from_value(last.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), last);
        let page = json!({"items": [], "next": "abc"});
        let read: QueueListPage = serde_json::from_value(page.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), page);
    }
}
