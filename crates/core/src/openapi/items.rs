//! The schemas of arrays whose items are a text or an object.

use utoipa::openapi::schema::{Array, ArrayBuilder, OneOfBuilder};
use utoipa::{PartialSchema, ToSchema};

use crate::QueueName;
use crate::limits::{RESERVE_QUEUES_MAX, SETTLE_LEASES_MAX};
use crate::v1::consume::{AckItem, QueueChoice};
use crate::v1::values::LeaseText;

/// The leases of an ack.
pub(crate) fn leases_to_ack() -> Array {
    texts_or_objects::<LeaseText, AckItem>("Their leases.", SETTLE_LEASES_MAX)
}

/// The queues of a reserve call.
pub(crate) fn queues_to_reserve() -> Array {
    let description = "The queues: names, or names with weights.";
    texts_or_objects::<QueueName, QueueChoice>(description, RESERVE_QUEUES_MAX)
}

fn texts_or_objects<T: ToSchema, O: PartialSchema>(description: &str, most: usize) -> Array {
    let item = OneOfBuilder::new().item(T::schema()).item(O::schema());
    ArrayBuilder::new()
        .description(Some(description))
        .items(item)
        .min_items(Some(1))
        .max_items(Some(most))
        .build()
}
