//! Requests to the admin port of an API.

use bytes::Bytes;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use serde_json::Value;
use tidegate_core::visible_text::escape;

use crate::arguments::admin_port::AdminPortArguments;
use crate::failure::CommandFailure;
use crate::probe::{HttpProbe, ProbeRequest, login};

pub(crate) struct AdminPort {
    url: String,
    user: Option<String>,
    probe: HttpProbe,
}

impl AdminPort {
    /// # Errors
    /// The address is not one.
    pub(crate) fn new(arguments: AdminPortArguments) -> Result<Self, CommandFailure> {
        let url = arguments.admin.trim_end_matches('/').to_owned();
        let probe = HttpProbe::new(&url);
        let probe = probe.map_err(|error| CommandFailure::Usage(error.detail))?;
        Ok(Self {
            url,
            user: arguments.admin_user,
            probe,
        })
    }

    /// Sends a request, and returns its answer.
    ///
    /// # Errors
    /// The server is unreachable, or refuses the request.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, CommandFailure> {
        let login = self.user.as_deref().map(login).transpose()?;
        let request = ProbeRequest {
            method,
            headers: login
                .map(|login| (AUTHORIZATION, login))
                .into_iter()
                .collect(),
            body: body
                .map(|body| Bytes::from(body.to_string()))
                .unwrap_or_default(),
        };
        let sent = self
            .probe
            .send(&format!("{}{path}", self.url), request)
            .await;
        let answer = sent.map_err(|error| {
            CommandFailure::Unreachable(format!("{} gives no answer: {error}", self.url))
        })?;
        let read = answer.json::<Value>();
        match read {
            Some(value) if answer.status < 300 => Ok(value),
            read => {
                let text = |value: &Value| {
                    let text = value.get("error").or(value.get("detail"))?;
                    Some(text.as_str()?.to_owned())
                };
                let text = read
                    .as_ref()
                    .and_then(text)
                    .unwrap_or_else(|| answer.text());
                let text = escape(&text);
                Err(CommandFailure::NotDone(format!(
                    "{} ({})",
                    text, answer.status
                )))
            }
        }
    }
}
