//! The attributes by which the collector knows the process.

use opentelemetry::{Key, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, ResourceDetector};

use super::VERSION;

const SERVICE_NAME: Key = Key::from_static_str("service.name");

/// The attributes of the process, with the attributes of `OTEL_RESOURCE_ATTRIBUTES`. Its name is the name in the
/// environment, or `program`.
pub(super) fn resource(program: &'static str) -> Resource {
    let attributes = EnvResourceDetector::new().detect();
    let name = service_name(std::env::var("OTEL_SERVICE_NAME").ok(), &attributes);
    // Set in any case: the SDK lets OTEL_RESOURCE_ATTRIBUTES override OTEL_SERVICE_NAME.
    Resource::builder()
        .with_attribute(KeyValue::new("service.version", VERSION))
        .with_service_name(name.unwrap_or_else(|| program.to_owned()))
        .build()
}

/// The name of the service, as OpenTelemetry says: a variable for it precedes an attribute, and an empty one counts as
/// unset.
fn service_name(variable: Option<String>, attributes: &Resource) -> Option<String> {
    let attribute = || attributes.get_ref(&SERVICE_NAME).map(ToString::to_string);
    let is_set = |name: &String| !name.is_empty();
    variable
        .filter(is_set)
        .or_else(|| attribute().filter(is_set))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_precedes_an_attribute_and_empty_names_count_as_unset() {
        for (variable, attribute, expected) in [
            (Some("one"), Some("other"), Some("one")),
            (Some(""), Some("other"), Some("other")),
            (None, Some("other"), Some("other")),
            (Some("one"), None, Some("one")),
            (Some(""), Some(""), None),
            (None, None, None),
        ] {
            let attribute = attribute.map(|name| KeyValue::new(SERVICE_NAME, name));
            let attributes = Resource::builder_empty().with_attributes(attribute).build();
            let name = service_name(variable.map(str::to_owned), &attributes);
            assert_eq!(name.as_deref(), expected, "{variable:?} {attributes:?}");
        }
    }
}
