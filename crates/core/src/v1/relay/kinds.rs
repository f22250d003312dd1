//! The common functions of the ends of relays.

/// Implements the common functions of the ends of relays, for an enum with one structure a kind. A row has the kind, its
/// structure with the field of its URL, the fields with secrets, and the fields that take the place of a user in the
/// URL.
macro_rules! relay_end {
    (url $config:ident) => {
        ""
    };
    (url $config:ident $url:ident) => {
        &$config.$url
    };
    ($end:ident, $description:literal;
     $($kind:literal $variant:ident($config:ident $(. $url:ident)?) [$($secret:ident)*] $credentials:literal;)*) => {
        impl $end {
            /// The kind, as in the field `kind`.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            /// The URL of the server; empty if the kind has none, or it is not set.
            #[allow(unused_variables, reason = "a kind may have no URL")]
            pub fn url(&self) -> &str {
                match self {
                    $(Self::$variant(config) => relay_end!(url config $($url)?),)*
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
            #[allow(unused_variables, reason = "a kind may have no secret")]
            pub(super) fn secrets_mut(&mut self) -> Vec<(&'static str, &mut super::secret::SecretText)> {
                match self {
                    $(Self::$variant(config) => vec![$((stringify!($secret), &mut config.$secret),)*],)*
                }
            }

            /// The fields that take the place of a user in the URL.
            pub(super) const fn credential_fields(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $credentials,)*
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
