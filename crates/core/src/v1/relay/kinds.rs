//! The common functions of the ends of relays.

/// Implements the common functions of the ends of relays, for an enum with one structure a kind.
macro_rules! relay_end {
    ($end:ident, $description:literal, $($kind:literal $variant:ident $config:ident,)*) => {
        impl $end {
            /// The kind, as in the field `kind`.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            /// The URL of the server; empty if the kind has none, or it is not set.
            pub fn url(&self) -> &str {
                match self {
                    $(Self::$variant(config) => config.url(),)*
                }
            }

            /// Checks the fields, except for secrets that are missing.
            pub(super) fn check(&self) -> Result<(), $crate::v1::problem::InvalidRequest> {
                match self {
                    $(Self::$variant(config) => config.check(),)*
                }
            }

            /// Checks that no secret is missing, and their form.
            pub(super) fn check_secrets(&self) -> Result<(), $crate::v1::problem::InvalidRequest> {
                match self {
                    $(Self::$variant(config) => config.check_secrets(),)*
                }
            }

            /// The fields with secrets, by name.
            pub(super) fn secrets_mut(&mut self) -> Vec<(&'static str, &mut super::secret::SecretText)> {
                match self {
                    $(Self::$variant(config) => config.secrets_mut(),)*
                }
            }

            /// The fields that take the place of a user in the URL.
            pub(super) const fn credential_fields(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $config::CREDENTIAL_FIELDS,)*
                }
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $end {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let kinds = [$(($kind, <$config as utoipa::ToSchema>::name().into_owned()),)*];
                $crate::openapi::kinds::one_of_kinds($description, &kinds)
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $end {
            fn schemas(
                schemas: &mut Vec<(
                    String,
                    utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>,
                )>,
            ) {
                $(
                    let schema = <$config as utoipa::PartialSchema>::schema();
                    schemas.push((
                        <$config as utoipa::ToSchema>::name().into_owned(),
                        $crate::openapi::kinds::with_kind($kind, schema),
                    ));
                    <$config as utoipa::ToSchema>::schemas(schemas);
                )*
            }
        }
    };
}

pub(super) use relay_end;
