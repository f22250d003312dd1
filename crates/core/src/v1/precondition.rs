//! Conditions of requests, as `If-Match` and `If-None-Match` have them.

/// The condition of a request for the thing that it changes. If it does not hold, the request fails with
/// `version_mismatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precondition<T> {
    /// Nothing.
    #[default]
    None,
    /// It exists: `If-Match: *`.
    Exists,
    /// It has this version: `If-Match`.
    Is(T),
    /// It does not exist: `If-None-Match: *`.
    Missing,
}

impl<T: PartialEq> Precondition<T> {
    /// Whether a thing with this version, or none, is as required.
    pub fn holds(&self, version: Option<&T>) -> bool {
        match self {
            Self::None => true,
            Self::Exists => version.is_some(),
            Self::Is(required) => version == Some(required),
            Self::Missing => version.is_none(),
        }
    }
}
