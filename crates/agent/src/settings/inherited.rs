//! The model of a profile that names none: the one of the profile `default`.
//!
//! All of it or nothing: address, model and key are taken from one profile, so
//! a key goes to the address that it was given for and to no other.

use vestal_config::{EnvName, ProfileName, Settings, ValueSource};

use super::endpoints::{BUILT_IN, EndpointError};
use crate::settings::keys;

/// Returns the settings of the profile `default`, for a profile that does not
/// say at all who is asked; nothing where its own settings count.
pub fn inherited(settings: &Settings) -> Result<Option<Settings>, EndpointError> {
    if settings.home().profile().is_default() || chooses_model(settings)? {
        return Ok(None);
    }
    let home = settings.home().sibling(ProfileName::default_profile());
    Ok(Some(Settings::load(settings.schema(), home, settings.environment().clone(), Vec::new())))
}

/// Returns the secrets that may turn up in what is said: those of the profile,
/// and those of the one whose model it asks.
pub fn known_secrets(settings: &Settings) -> Vec<String> {
    let mut secrets = settings.known_secrets();
    // Settings that cannot be read lead to no model either.
    if let Ok(Some(inherited)) = inherited(settings) {
        secrets.extend(inherited.known_secrets());
    }
    secrets
}

/// Reports whether a profile says something about who is asked. A key in its
/// `.env` does: it must not be mixed with the key of another profile.
fn chooses_model(settings: &Settings) -> Result<bool, EndpointError> {
    let sources = [
        settings.get(&keys::MODEL_DEFAULT)?.source,
        settings.get(&keys::MODEL_PROVIDER)?.source,
        settings.get(&keys::MODEL_BASE_URL)?.source,
        settings.get(&keys::MODEL_API_MODE)?.source,
        settings.get(&keys::PROVIDERS)?.source,
        settings.get(&keys::FALLBACK_PROVIDERS)?.source,
    ];
    if sources.iter().any(|source| *source != ValueSource::Default) {
        return Ok(true);
    }
    // A key in the environment of the process belongs to both.
    let key = settings.get(&keys::MODEL_API_KEY)?.source;
    if !matches!(key, ValueSource::Default | ValueSource::Environment { .. }) {
        return Ok(true);
    }
    for built_in in BUILT_IN {
        let Some(name) = EnvName::new(built_in.key) else { continue };
        let found = settings.variable(&name)?;
        if found.is_some_and(|found| matches!(found.source, ValueSource::DotEnv { .. })) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home};
    use vestal_model::ApiKey;

    use super::super::endpoints;
    use super::*;

    const DEFAULT: &str = "model: {default: m, base_url: 'http://127.0.0.1:1/v1'}\n";

    /// Returns who is asked, and with which key, in a profile that has these files.
    fn asked(config: &str, dotenv: &str) -> Result<(String, Option<ApiKey>), String> {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).unwrap();
        std::fs::create_dir_all(dir.path().join("profiles/writer")).unwrap();
        write("config.yaml", DEFAULT);
        write(".env", "VESTAL_API_KEY=of-default\n");
        write("profiles/writer/config.yaml", config);
        write("profiles/writer/.env", dotenv);
        let home = Home::at(dir.path()).sibling(ProfileName::new("writer").unwrap());
        let settings = Settings::load(&crate::schema(), home, Environment::default(), Vec::new());
        let chain = endpoints(&settings, None).map_err(|error| error.to_string())?;
        Ok((format!("{} {}", chain[0].base_url, chain[0].model), chain[0].key.clone()))
    }

    #[test]
    fn a_profile_without_a_model_asks_that_of_default_with_its_key() {
        let expected = ("http://127.0.0.1:1/v1 m".to_owned(), Some(ApiKey::new("of-default")));
        assert_eq!(asked("terminal: {timeout: 60}\n", "OTHER=1\n"), Ok(expected));
    }

    #[test]
    fn a_profile_that_says_who_is_asked_gets_no_key_of_another() {
        let own = "model: {default: own, base_url: 'http://127.0.0.1:2/v1'}\n";
        assert_eq!(asked(own, ""), Ok(("http://127.0.0.1:2/v1 own".to_owned(), None)));
        let provider = "model: {default: own, provider: openai}\n";
        let lacks = "the provider openai needs a key, and OPENAI_API_KEY is not set";
        assert_eq!(asked(provider, ""), Err(lacks.to_owned()));
    }

    #[test]
    fn a_key_of_the_profile_never_goes_to_the_address_of_default() {
        for dotenv in ["OPENAI_API_KEY=own\n", "VESTAL_API_KEY=own\n"] {
            assert_eq!(asked("", dotenv), Err("no model is configured".to_owned()), "{dotenv}");
        }
    }
}
