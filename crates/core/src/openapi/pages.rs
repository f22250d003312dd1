//! The schemas of pages of lists.

use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, RefBuilder, Type};
use utoipa::openapi::{OpenApi, Ref};
use utoipa::{Modify, ToSchema};

use crate::v1::values::CursorText;

/// Each page by its name: the schema of its items, and the descriptions of the page and of its items.
const PAGES: [[&str; 4]; 8] = [
    [
        "JobListPage",
        "JobDetails",
        "A page of a list of jobs.",
        "The jobs, each with the last entry of its history only.",
    ],
    [
        "LanesListPage",
        "QueueLanes",
        "A page of a list of queues with more than one lane.",
        "The queues of this page, sorted by namespace and name.",
    ],
    [
        "LimitListPage",
        "LimitDetails",
        "A page of a list of limits.",
        "The limits, by name.",
    ],
    [
        "PolicyListPage",
        "QueuePolicy",
        "A page of a list of policies.",
        "The queues of this page, sorted by namespace and name.",
    ],
    [
        "QueueListPage",
        "QueueView",
        "A page of a list of queues.",
        "The queues of this page, sorted by name. The pages are in no order.",
    ],
    [
        "RelayListPage",
        "RelayDetails",
        "A page of a list of relays.",
        "The relays, by name.",
    ],
    [
        "ScheduleListPage",
        "ScheduleDetails",
        "A page of a list of schedules.",
        "The schedules, by name.",
    ],
    [
        "WorkerListPage",
        "WorkerView",
        "A page of the workers of a namespace.",
        "The workers, by name.",
    ],
];

/// Adds the schemas of pages, each with a name for its items.
pub(crate) struct PageSchemas;

impl Modify for PageSchemas {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        for [name, item, description, items] in PAGES {
            let page = page_schema(item, description, items).into();
            components.schemas.insert(name.to_owned(), page);
        }
    }
}

fn page_schema(item: &str, description: &str, items: &str) -> ObjectBuilder {
    let items = ArrayBuilder::new()
        .items(Ref::from_schema_name(item))
        .description(Some(items));
    let cursor = RefBuilder::new()
        .ref_location_from_schema_name(CursorText::name())
        .description(Some(
            "The cursor of the next page; `null` at the end of the list.",
        ));
    let next = OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .item(cursor);
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .property("items", items)
        .required("items")
        .property("next", next)
        .required("next")
}
