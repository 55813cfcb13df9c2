//! A backend without a shared filesystem, to prove that one can be added: its
//! instances are on a machine that is reached over TCP alone (`toy_machine.rs`).
//!
//! One connection carries one request, a line of JSON, and its answer. The one
//! that asks for the guest then becomes the byte stream to it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vestal_config::{ConfigError, Environment, Settings};
use vestal_sandbox::backend::{
    Availability, Backend, BackendError, ByteStream, Declaration, FoundInstance, Instance,
    InstanceFilter, InstanceRequest, InstanceState, KeptVolumes, Locator, Remedy, StartedInstance,
    VolumeStore,
};
use vestal_sandbox::{Engine, EngineOptions, Error, Overrides, Spec};

/// The variable that says where the machine is.
pub(crate) const ADDRESS: &str = "VESTAL_TEST_TOY";

/// A failpoint of the guest, which the machine hands on to it.
const FAILPOINT: &str = "VESTAL_GUEST_FAILPOINT";

static DECLARATION: Declaration = Declaration {
    name: "toy",
    workspace: |locator| locator["workspace"].as_str().unwrap_or("/").into(),
    remedy: Remedy::Restart,
    ..Declaration::REMOTE
};

/// Opens an engine whose backend is on the machine that the environment names;
/// an ordinary one where it names none.
pub(crate) fn open(settings: Settings, options: EngineOptions) -> Result<Engine, Error> {
    match settings.environment().get(ADDRESS).and_then(|address| address.to_str()) {
        Some(address) => {
            let toy = Toy { address: address.to_owned() };
            Engine::with_backends(settings, vec![Arc::new(toy)])
        }
        None => Engine::open_with(settings, options),
    }
}

#[derive(Debug)]
struct Toy {
    address: String,
}

impl Toy {
    /// Sends a request, with the instance's id, and returns the answer and the
    /// connection.
    async fn ask(&self, request: &Value) -> Result<(Value, TcpStream), BackendError> {
        let unreachable = |error: std::io::Error| BackendError::Unreachable {
            address: self.address.clone(),
            reason: error.to_string(),
            advice: "try again".to_owned(),
        };
        let connected = TcpStream::connect(&self.address).await.map_err(unreachable)?;
        connected.set_nodelay(true).map_err(unreachable)?;
        let mut stream = connected;
        let exchange = async {
            stream.write_all(format!("{request}\n").as_bytes()).await?;
            let mut line = Vec::new();
            // Byte by byte: what comes after the line is the guest's.
            while line.last() != Some(&b'\n') {
                line.push(stream.read_u8().await?);
            }
            Ok(serde_json::from_slice::<Value>(&line)?)
        };
        let answer = exchange.await.map_err(unreachable)?;
        match answer["error"].as_str() {
            Some(reason) => Err(BackendError::GuestFailed { reason: reason.to_owned() }),
            None => Ok((answer, stream)),
        }
    }

    /// Sends a request until there is an answer: each may be sent again.
    async fn tell(&self, request: &Value) -> Result<Value, BackendError> {
        for _ in 0..20 {
            match self.ask(request).await {
                Err(BackendError::Unreachable { .. }) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                other => return other.map(|(answer, _)| answer),
            }
        }
        self.ask(request).await.map(|(answer, _)| answer)
    }

    async fn launch(
        &self,
        verb: &str,
        request: InstanceRequest,
    ) -> Result<StartedInstance, BackendError> {
        let guest = vestal_wire::encode(&request.guest)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })?;
        let label = json!({
            "key": request.key.hash(), "home": request.key.home().as_str(),
            "task": request.key.task().as_str(), "generation": request.generation,
            "owner": request.owner, "spec": request.spec.hash(),
        });
        let failpoint =
            Environment::capture().get(FAILPOINT).and_then(|name| name.to_str().map(str::to_owned));
        let told = json!({
            "verb": verb, "instance": request.instance.id, "label": label, "guest": guest,
            "failpoint": failpoint,
        });
        let locator = self.tell(&told).await?;
        Ok(StartedInstance { locator, warnings: Vec::new() })
    }
}

/// Returns the state that an answer tells of.
fn state_of(answer: &Value) -> InstanceState {
    let since = answer["since"].as_i64().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    match answer["state"].as_str() {
        Some("running") => InstanceState::Running,
        Some("stopped") => InstanceState::Stopped { since },
        Some("broken") => InstanceState::Broken { since },
        _ => InstanceState::Absent,
    }
}

#[async_trait]
impl Backend for Toy {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        match self.tell(&json!({ "verb": "find" })).await {
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
        self.launch("create", request).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.launch("start", request).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        let answer = self.tell(&json!({ "verb": "state", "instance": instance.id })).await?;
        Ok(state_of(&answer))
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        let request = json!({ "verb": "connect", "instance": instance.id });
        match self.ask(&request).await {
            Ok((_, stream)) => Ok(Box::new(stream)),
            Err(BackendError::GuestFailed { .. }) => {
                Err(BackendError::NotListening { id: instance.id.clone() })
            }
            Err(error) => Err(error),
        }
    }

    async fn end(&self, instance: &Instance, _: Duration) -> Result<(), BackendError> {
        self.tell(&json!({ "verb": "end", "instance": instance.id })).await.map(drop)
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        self.tell(&json!({ "verb": "remove", "instance": instance.id })).await?;
        match std::fs::remove_dir_all(&instance.dir) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(BackendError::Io { action: "remove its directory".to_owned(), source })
            }
            _ => Ok(()),
        }
    }

    async fn find(&self, filter: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        let answer = self.tell(&json!({ "verb": "find" })).await?;
        let found = answer["found"].as_array().into_iter().flatten().filter(|found| match filter {
            InstanceFilter::Key(key) => found["label"]["key"] == key,
            InstanceFilter::Home(home) => found["label"]["home"] == home.as_str(),
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let instance = |found: &Value| {
            let label = &found["label"];
            let owner = serde_json::from_value(label["owner"].clone()).ok().flatten();
            FoundInstance {
                id: text(&found["instance"]),
                key: text(&label["key"]),
                task: text(&label["task"]),
                generation: label["generation"].as_u64().unwrap_or(1),
                persistent: label["owner"].is_null(),
                owner,
                spec: text(&label["spec"]),
                state: state_of(found),
                created_at: None,
                locator: Locator::clone(&found["locator"]),
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
        let answer = self.tell(&json!({ "verb": "volumes", "key": key })).await?;
        Ok(serde_json::from_value(answer["volumes"].clone()).unwrap_or_default())
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        let files = kept == KeptVolumes::Files;
        let told = json!({ "verb": "remove-volumes", "key": key, "keep_files": files });
        self.tell(&told).await.map(drop)
    }
}
