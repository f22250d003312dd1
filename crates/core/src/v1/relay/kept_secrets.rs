//! The secrets of a relay, when it is shown and when it is replaced.

use super::config::RelayConfig;
use super::secret::SecretText;
use crate::v1::problem::InvalidRequest;

impl RelayConfig {
    /// The same without its secrets, as answers show it.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        let secrets = self
            .source
            .secrets_mut()
            .into_iter()
            .chain(self.sink.secrets_mut());
        secrets.for_each(|(_, secret)| *secret = SecretText::default());
        self
    }

    /// Makes secrets that are `""` absent: a `PUT` has removed them.
    pub fn drop_empty_secrets(&mut self) {
        let (source, sink) = (self.source.secrets_mut(), self.sink.secrets_mut());
        let all = source.into_iter().chain(sink);
        let empty = all.filter(|(_, secret)| secret.is_empty());
        empty.for_each(|(_, secret)| *secret = SecretText::default());
    }

    /// The names of the secrets that are set, such as `sink.password`.
    pub fn secret_names(&self) -> Vec<String> {
        let mut config = self.clone();
        let (source, sink) = (config.source.secrets_mut(), config.sink.secrets_mut());
        let source = source.into_iter().map(|secret| ("source", secret));
        let all = source.chain(sink.into_iter().map(|secret| ("sink", secret)));
        all.filter(|(_, (_, secret))| !secret.is_empty())
            .map(|(end, (field, _))| format!("{end}.{field}"))
            .collect()
    }

    /// Takes each absent secret from the relay that this one replaces, if the end of the relay has the same kind and
    /// URL: else a secret would be sent to another server than it was given for.
    ///
    /// # Errors
    /// A secret that is stored for the replaced relay must be given again.
    pub fn keep_secrets_of(&mut self, stored: &Self) -> Result<(), InvalidRequest> {
        let mut stored = stored.clone();
        let source = change(
            (stored.source.kind(), stored.source.url()),
            (self.source.kind(), self.source.url()),
        );
        let sink = change(
            (stored.sink.kind(), stored.sink.url()),
            (self.sink.kind(), self.sink.url()),
        );
        // Everyone on the way could read it.
        let is_shown = self.sink.shows_password() && !stored.sink.shows_password();
        let sink = sink.or(is_shown.then_some("encryption"));
        let (of_source, of_sink) = (self.source.secrets_mut(), self.sink.secrets_mut());
        keep("source", source, of_source, &stored.source.secrets_mut())?;
        keep("sink", sink, of_sink, &stored.sink.secrets_mut())
    }
}

type SecretField<'a> = (&'static str, &'a mut SecretText);

/// The name of the part of an end that changes; an end is given by kind and URL.
fn change(from: (&str, &str), to: (&str, &str)) -> Option<&'static str> {
    if from.0 != to.0 {
        return Some("kind");
    }
    (from.1 != to.1).then_some("url")
}

fn keep(
    end: &str,
    change: Option<&str>,
    fields: Vec<SecretField<'_>>,
    stored: &[SecretField<'_>],
) -> Result<(), InvalidRequest> {
    for (field, secret) in fields.into_iter().filter(|(_, it)| it.is_absent()) {
        let found = stored
            .iter()
            .find(|(name, it)| *name == field && !it.is_empty());
        let Some((_, kept)) = found else { continue };
        if let Some(change) = change {
            let name = format!("{end}.{field}");
            let detail =
                format!("{name} must be given again, since the {change} changes; \"\" removes it");
            return Err(InvalidRequest::of_field(name, detail));
        }
        secret.clone_from(kept);
    }
    Ok(())
}
