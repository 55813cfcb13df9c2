use super::*;

#[test]
fn secrets_of_every_class_are_recognised() {
    let table: &[(SecretClass, &[&str])] = &[
        (
            SecretClass::Provider,
            &[
                "OPENAI_API_KEY",
                "OPENAI_BASE_URL",
                "OPENAI_API_BASE",
                "OPENAI_API_KEY_2",
                "OPENAI_API_KEY1",
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_TOKEN",
                "ANTHROPIC_AUTH_TOKEN",
                "ANTHROPIC_BASE_URL",
                "GOOGLE_API_KEY",
                "GEMINI_API_KEY",
                "GEMINI_BASE_URL",
                "MISTRAL_API_KEY",
                "GROQ_API_KEY",
                "XAI_API_KEY",
                "DEEPSEEK_API_KEY",
                "OPENROUTER_API_KEY",
                "TOGETHER_API_KEY",
                "FIREWORKS_API_KEY",
                "COHERE_API_KEY",
                "CO_API_KEY",
                "PERPLEXITY_API_KEY",
                "AZURE_OPENAI_API_KEY",
                "AZURE_OPENAI_ENDPOINT",
                "HF_TOKEN",
                "HUGGINGFACE_API_KEY",
                "REPLICATE_API_TOKEN",
                "AUXILIARY_VISION_API_KEY",
                "AUXILIARY_WEB_EXTRACT_BASE_URL",
                "AWS_BEARER_TOKEN_BEDROCK",
                "openai_api_key",
            ],
        ),
        (
            SecretClass::Own,
            &[
                "VESTAL_API_TOKEN",
                "VESTAL_GATEWAY_SECRET",
                "GATEWAY_RELAY_ID",
                "GATEWAY_RELAY_DELIVERY_KEY",
            ],
        ),
        (SecretClass::Sudo, &["SUDO_PASSWORD"]),
        (
            SecretClass::Messaging,
            &[
                "TELEGRAM_BOT_TOKEN",
                "DISCORD_BOT_TOKEN",
                "SLACK_BOT_TOKEN",
                "SLACK_APP_TOKEN",
                "SIGNAL_ACCOUNT",
                "WHATSAPP_ACCESS_TOKEN",
                "MATRIX_ACCESS_TOKEN",
                "MATRIX_PASSWORD",
                "TWILIO_AUTH_TOKEN",
                "TWILIO_ACCOUNT_SID",
                "EMAIL_PASSWORD",
                "SMTP_PASSWORD",
            ],
        ),
        (
            SecretClass::Tool,
            &[
                "TAVILY_API_KEY",
                "EXA_API_KEY",
                "SERPER_API_KEY",
                "BRAVE_SEARCH_API_KEY",
                "FIRECRAWL_API_KEY",
                "GH_TOKEN",
                "GITHUB_TOKEN",
                "GITHUB_APP_PRIVATE_KEY_PATH",
                "MODAL_TOKEN_ID",
                "MODAL_TOKEN_SECRET",
                "DAYTONA_API_KEY",
                "FAL_KEY",
                "ELEVENLABS_API_KEY",
            ],
        ),
        (
            SecretClass::Cloud,
            &["GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE"],
        ),
    ];
    for (class, names) in table {
        for name in *names {
            assert_eq!(class_of(name), Some(*class), "{name}");
            assert!(is_secret_name(name), "{name}");
        }
    }
}

#[test]
fn what_commands_need_is_inherited() {
    for name in [
        "PATH",
        "HOME",
        "LANG",
        "TERM",
        "SHELL",
        "USER",
        "SSH_AUTH_SOCK",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_REGION",
        "VESTAL_HOME",
        "VESTAL_PROFILE",
        "DATABASE_URL",
        "STRIPE_API_KEY",
        "NPM_TOKEN",
        "COLUMNS",
        "LINES",
        "GOOGLE_CLOUD_PROJECT",
        "HF_HOME",
        "OLLAMA_HOST",
        "CODEX_HOME",
        "LINE",
        "CO",
        "MODAL",
        "EMAIL",
        "",
        "OPENAI",
        "AUXILIARY_API_KEY",
        "HTTP_PROXY",
        "KUBECONFIG",
        "DOCKER_HOST",
        "TERMINAL_ENV",
    ] {
        assert_eq!(class_of(name), None, "{name}");
    }
}

#[test]
fn stripping_lets_through_what_may_be_and_names_what_may_not() {
    let env = Environment::from_pairs([
        ("PATH", "/bin"),
        ("GH_TOKEN", "g"),
        ("GITHUB_TOKEN", "h"),
        ("OPENAI_API_KEY", "o"),
        ("SUDO_PASSWORD", "p"),
    ]);
    let passthrough: EnvNames =
        ["GH_TOKEN", "OPENAI_API_KEY", "SUDO_PASSWORD", "VESTAL_API_TOKEN", "PATH", "UNSET"]
            .into_iter()
            .filter_map(EnvName::new)
            .collect();
    let stripped = strip(&env, &passthrough);
    let names: Vec<_> = stripped.variables.iter().map(|(name, _)| name.to_str()).collect();
    assert_eq!(names, [Some("GH_TOKEN"), Some("PATH")]);
    let refused: Vec<_> = stripped.refused.iter().map(EnvName::as_str).collect();
    assert_eq!(refused, ["OPENAI_API_KEY", "SUDO_PASSWORD", "VESTAL_API_TOKEN"]);
}

#[test]
fn a_secret_name_with_odd_bytes_around_it_is_judged_by_its_text() {
    use std::os::unix::ffi::OsStringExt;
    let odd = OsString::from_vec(b"OPENAI_\xff_API_KEY".to_vec());
    let env = Environment::from_pairs([(odd, "x")]);
    assert_eq!(strip(&env, &EnvNames::EMPTY).variables, []);
}
