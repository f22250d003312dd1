//! The schemas of the answers to settle calls: each call has only some of the outcomes.

use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{OneOfBuilder, OpenApi, Ref, RefOr};
use utoipa::{Modify, PartialSchema};

use crate::v1::consume::{Outcome, SettleCall};

/// Adds the schemas of the answers: each call has only some of the outcomes.
pub(crate) struct SettleAnswerSchemas;

impl Modify for SettleAnswerSchemas {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        for call in SettleCall::ALL {
            let [answer, outcome] = schema_names(call);
            let of_answer = answer_schema(call).into();
            components.schemas.insert(answer.to_owned(), of_answer);
            let of_outcome = outcome_schema(call).into();
            components.schemas.insert(outcome.to_owned(), of_outcome);
        }
    }
}

/// The outcomes of leases that a reserve call acknowledged.
pub(crate) fn ack_outcomes() -> Array {
    outcomes_of(SettleCall::Ack)
}

/// The outcomes of attempts whose failure a reserve call reported.
pub(crate) fn fail_outcomes() -> Array {
    outcomes_of(SettleCall::Fail)
}

fn outcomes_of(call: SettleCall) -> Array {
    let [_, outcome] = schema_names(call);
    let text = format!(
        "One outcome for each lease of `{}`, in its order.",
        call.name()
    );
    ArrayBuilder::new()
        .items(Ref::from_schema_name(outcome))
        .description(Some(text))
        .build()
}

fn answer_schema(call: SettleCall) -> ObjectBuilder {
    let results = outcomes_of(call);
    let call = call.name();
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(format!(
            "One outcome for each lease of a call of `{call}`, in its order."
        )))
        .property("results", results)
        .required("results")
}

fn outcome_schema(call: SettleCall) -> OneOfBuilder {
    let text = format!("The outcome for one lease of a call of `{}`.", call.name());
    let RefOr::T(Schema::OneOf(all)) = Outcome::schema() else {
        return OneOfBuilder::new();
    };
    let of_call = all.items.into_iter().filter(|variant| {
        let variant = serde_json::to_value(variant).unwrap_or_default();
        let name = variant.pointer("/properties/outcome/enum/0");
        name.and_then(|name| name.as_str())
            .is_some_and(|name| call.outcomes().contains(&name))
    });
    of_call.fold(
        OneOfBuilder::new().description(Some(text)),
        OneOfBuilder::item,
    )
}

const fn schema_names(call: SettleCall) -> [&'static str; 2] {
    match call {
        SettleCall::Ack => ["AckAnswer", "AckOutcome"],
        SettleCall::Fail => ["FailAnswer", "FailOutcome"],
        SettleCall::Touch => ["TouchAnswer", "TouchOutcome"],
        SettleCall::Release => ["ReleaseAnswer", "ReleaseOutcome"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcomes_of_each_call_are_a_closed_list() {
        for call in SettleCall::ALL {
            let schema = serde_json::to_value(outcome_schema(call).build()).unwrap();
            let variants = schema["oneOf"].as_array().unwrap().iter();
            let names = variants.map(|variant| &variant["properties"]["outcome"]["enum"][0]);
            assert_eq!(names.collect::<Vec<_>>(), call.outcomes());
        }
    }
}
