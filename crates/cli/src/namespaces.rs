//! `tidegate namespace`: the limits of namespaces, on the admin port of an API.

use bytes::Bytes;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use serde_json::{Map, Value, json};
use tidegate_core::Namespace;
use tidegate_core::visible_text::escape;

use crate::arguments::namespace::{NamespaceArguments, NamespaceCommand};
use crate::failure::CommandFailure;
use crate::output::CommandOutput;
use crate::probe::{HttpProbe, ProbeRequest, login};

/// Executes the command.
///
/// # Errors
/// The server is unreachable, or refuses the request.
pub(crate) async fn execute(
    arguments: NamespaceArguments,
) -> Result<CommandOutput, CommandFailure> {
    let port = AdminPort::new(&arguments)?;
    let answer = match arguments.command {
        NamespaceCommand::List => port.send(Method::GET, "/namespaces", None).await?,
        NamespaceCommand::Show { name } => {
            let name = namespace(&name)?;
            let mut shown = port.send(Method::GET, &quota(&name), None).await?;
            let path = format!("/v1/{name}");
            let used = port.send(Method::GET, &path, None).await?;
            shown["limits"] = used["limits"].clone();
            shown
        }
        NamespaceCommand::Set { name, limits } => {
            let mut values = Map::new();
            for (name, value) in limits {
                if values.insert(name.clone(), value.into()).is_some() {
                    let problem = format!("the limit {name} is given twice");
                    return Err(CommandFailure::Usage(problem));
                }
            }
            let path = quota(&namespace(&name)?);
            port.send(Method::PUT, &path, Some(json!(values))).await?
        }
        NamespaceCommand::Delete { name } => {
            let path = quota(&namespace(&name)?);
            port.send(Method::DELETE, &path, None).await?
        }
    };
    Ok(CommandOutput::Answer(answer))
}

fn namespace(name: &str) -> Result<Namespace, CommandFailure> {
    let invalid = |error| CommandFailure::Usage(format!("{name:?}: {error}"));
    Namespace::try_from(name).map_err(invalid)
}

fn quota(namespace: &Namespace) -> String {
    format!("/namespaces/{namespace}")
}

struct AdminPort {
    url: String,
    user: Option<String>,
    probe: HttpProbe,
}

impl AdminPort {
    fn new(arguments: &NamespaceArguments) -> Result<Self, CommandFailure> {
        let url = arguments.admin.trim_end_matches('/').to_owned();
        let probe = HttpProbe::new(&url);
        let probe = probe.map_err(|error| CommandFailure::Usage(error.detail))?;
        Ok(Self {
            url,
            user: arguments.admin_user.clone(),
            probe,
        })
    }

    async fn send(
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
