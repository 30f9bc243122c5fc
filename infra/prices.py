"""US dollars, us-east-1, on demand, without free tiers, as of AS_OF. Prices change: check the vendor's pages before you rely on them."""

AS_OF = "2026-11"
HOURS = 730

RDS_HOUR = {
    "t4g.micro": 0.016, "t4g.small": 0.032, "t4g.medium": 0.065, "t4g.large": 0.129, "t4g.xlarge": 0.258,
    "m7g.large": 0.168, "m7g.xlarge": 0.337, "m7g.2xlarge": 0.674, "r7g.large": 0.239, "r7g.xlarge": 0.478, "r7g.2xlarge": 0.956,
}  # fmt: skip
RDS_STORAGE_GB = 0.115
AURORA_ACU_HOUR = 0.12
AURORA_STORAGE_GB = 0.10
AURORA_MILLION_IO = 0.20
PROXY_VCPU_HOUR, PROXY_LEAST_VCPUS, PROXY_ACU_HOUR, PROXY_LEAST_ACUS = 0.015, 2, 0.015, 8

FARGATE_VCPU_HOUR, FARGATE_GB_HOUR, FARGATE_SPOT_SHARE = 0.03238, 0.00356, 0.3
PUBLIC_IP_HOUR = 0.005
NAT_HOUR = 0.045
ENDPOINT_HOUR = 0.01

LAMBDA_GB_SECOND, LAMBDA_MILLION = 0.0000133334, 0.20
HTTP_API_MILLION = 1.00
CLOUDFRONT_MILLION = 1.00
SCHEDULER_MILLION = 1.00
LOGS_GB = 0.50
SECRET = 0.40
ALARM = 0.10
METRIC = 0.30
DASHBOARD = 3.00
WAF, WAF_RULE = 5.00, 1.00
