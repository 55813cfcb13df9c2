//! A backend without a shared filesystem, to prove that one can be added: its instances are on a
//! machine that is reached over TCP alone (`toy_machine.rs`). One connection carries one request, a
//! line of JSON, and its answer. The one that asks for the guest becomes the byte stream to it.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vestal_config::{ConfigError, Environment, Settings};
use vestal_sandbox::backend::{
    Availability, Backend, BackendError, ByteStream, Declaration, FoundInstance, HostDirectories,
    Instance, InstanceFilter, InstanceRequest, InstanceState, KeptVolumes, Remedy, StartedInstance,
    VolumeStore,
};
use vestal_sandbox::{Overrides, Spec};

static DECLARATION: Declaration = Declaration {
    name: "toy",
    workspace: |locator| locator["workspace"].as_str().unwrap_or("/").into(),
    host_directories: HostDirectories::Synced,
    remedy: Remedy::Restart,
    ..Declaration::REMOTE
};

/// The backend, and the address of its machine.
#[derive(Debug)]
pub(super) struct Toy(pub(super) String);

impl Toy {
    /// Sends a request and returns the answer and the connection.
    async fn ask(&self, request: Value) -> Result<(Value, TcpStream), BackendError> {
        let exchange = async {
            let mut stream = TcpStream::connect(&self.0).await?;
            stream.write_all(format!("{request}\n").as_bytes()).await?;
            let mut line = Vec::new();
            // Byte by byte: what comes after the line is the guest's.
            while line.last() != Some(&b'\n') {
                line.push(stream.read_u8().await?);
            }
            Ok((serde_json::from_slice::<Value>(&line)?, stream))
        };
        let (answer, stream) =
            exchange.await.map_err(|error: std::io::Error| BackendError::Unreachable {
                address: self.0.clone(),
                reason: error.to_string(),
                advice: "try again".to_owned(),
            })?;
        match answer["error"].as_str() {
            Some(reason) => Err(BackendError::GuestFailed { reason: reason.to_owned() }),
            None => Ok((answer, stream)),
        }
    }

    /// Sends a request about an instance, or about the files of a sandbox.
    async fn request(&self, verb: &str, id: &str) -> Result<Value, BackendError> {
        self.ask(json!({ "verb": verb, "id": id })).await.map(|(answer, _)| answer)
    }

    async fn launch(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        let guest = vestal_wire::encode(&request.guest)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })?;
        let label = json!({
            "key": request.key.hash(), "home": request.key.home().as_str(),
            "task": request.key.task().as_str(), "generation": request.generation,
            "owner": request.owner, "spec": request.spec.hash(),
        });
        let variables = Environment::capture();
        let failpoint = variables.get("VESTAL_GUEST_FAILPOINT").and_then(|name| name.to_str());
        let launch = json!({ "verb": "launch", "id": request.instance.id, "label": label,
            "guest": guest, "failpoint": failpoint });
        let (answer, _) = self.ask(launch).await?;
        Ok(StartedInstance { locator: answer["label"].clone(), warnings: Vec::new() })
    }
}

/// Returns the state that an answer reports.
fn state_of(answer: &Value) -> InstanceState {
    let since = answer["since"].as_i64().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    match answer["state"].as_str() {
        Some("running") => InstanceState::Running,
        Some("stopped") => InstanceState::Stopped { since },
        _ => InstanceState::Absent,
    }
}

#[async_trait]
impl Backend for Toy {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        match self.request("find", "").await {
            Ok(_) => Availability::Works { notes: Vec::new() },
            Err(error) => {
                Availability::Missing { reason: error.to_string(), advice: "start it".to_owned() }
            }
        }
    }

    fn spec(&self, _: &Settings, _: &Overrides) -> Result<Spec, ConfigError> {
        Ok(Spec::default())
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.launch(request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.launch(request).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        Ok(state_of(&self.request("state", &instance.id).await?))
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        match self.ask(json!({ "verb": "connect", "id": instance.id })).await {
            Ok((_, stream)) => Ok(Box::new(stream)),
            Err(BackendError::GuestFailed { .. }) => {
                Err(BackendError::NotListening { id: instance.id.clone() })
            }
            Err(error) => Err(error),
        }
    }

    async fn end(&self, instance: &Instance, _: Duration) -> Result<(), BackendError> {
        self.request("end", &instance.id).await.map(drop)
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        self.request("remove", &instance.id).await?;
        if instance.dir.exists() {
            std::fs::remove_dir_all(&instance.dir).map_err(|source| BackendError::Io {
                action: "remove its directory".to_owned(),
                source,
            })?;
        }
        Ok(())
    }

    async fn find(&self, filter: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        let answer = self.request("find", "").await?;
        let found = answer.as_array().into_iter().flatten().filter(|found| match filter {
            InstanceFilter::Key(key) => found["label"]["key"] == key,
            InstanceFilter::Home(home) => found["label"]["home"] == home.as_str(),
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let instance = |found: &Value| {
            let label = &found["label"];
            let owner = serde_json::from_value(label["owner"].clone()).ok().flatten();
            FoundInstance {
                id: text(&found["id"]),
                key: text(&label["key"]),
                task: text(&label["task"]),
                generation: label["generation"].as_u64().unwrap_or(1),
                persistent: label["owner"].is_null(),
                owner,
                spec: text(&label["spec"]),
                state: state_of(found),
                created_at: None,
                locator: label.clone(),
            }
        };
        Ok(found.map(instance).collect())
    }

    fn volume_store(&self) -> Option<&dyn VolumeStore> {
        Some(self)
    }
}

#[async_trait]
impl VolumeStore for Toy {
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        let answer = self.request("volumes", key).await?;
        Ok(serde_json::from_value(answer).unwrap_or_default())
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        let files = kept == KeptVolumes::Files;
        self.request(if files { "remove-state" } else { "remove-files" }, key).await.map(drop)
    }
}
