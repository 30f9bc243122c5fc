"""The front door: CloudFront with the page from a private bucket and the API on the same origin, so that there is no CORS."""

from __future__ import annotations

import sys

from aws_cdk import CustomResource, Duration, RemovalPolicy
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra import bundle
from infra.functions import Functions
from infra.http_api import HttpApi
from infra.migrations import LONGEST
from infra.settings import Stage
from tidemill.http.origin import HEADER
from tidemill.local import page

API_PATHS = ("/v1/*", "/healthz", "/readyz")


class Edge(Construct):
    """`address`: where the page and the API are. `distribution`: CloudFront's."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        stage: Stage,
        http_api: HttpApi,
        origin: secretsmanager.Secret,
        functions: Functions,
        web_acl_arn: str | None,
    ) -> None:
        super().__init__(scope, name)
        bucket = s3.Bucket(
            self,
            "Page",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            removal_policy=RemovalPolicy.RETAIN,
            versioned=True,
            lifecycle_rules=[s3.LifecycleRule(noncurrent_version_expiration=Duration.days(30))],
        )
        html = bundle.page()
        if html is None:
            print("tidemill: frontend/dist/index.html is not built: the stage gets a page that says so", file=sys.stderr)
        api = origins.HttpOrigin(
            http_api.host,
            custom_headers={HEADER: origin.secret_value.unsafe_unwrap()},
            origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
            read_timeout=Duration.seconds(30),
        )
        to_api = cloudfront.BehaviorOptions(
            origin=api,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
            cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
            origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
            compress=True,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
            response_headers_policy=self._headers("ApiHeaders", stage, None),
        )
        certificate = acm.Certificate.from_certificate_arn(self, "Certificate", stage.certificate_arn) if stage.certificate_arn else None
        self.distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"tidemill {stage.name}",
            default_root_object="index.html",
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            # With CloudFront's own certificate it cannot be chosen.
            minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021 if stage.domain else None,
            price_class=cloudfront.PriceClass.PRICE_CLASS_100,
            domain_names=[stage.domain] if stage.domain else None,
            certificate=certificate,
            web_acl_id=web_acl_arn,
            default_behavior=cloudfront.BehaviorOptions(
                origin=origins.S3BucketOrigin.with_origin_access_control(bucket),
                viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.REDIRECT_TO_HTTPS,
                cache_policy=cloudfront.CachePolicy(
                    self,
                    "Minute",
                    min_ttl=Duration.seconds(0),
                    default_ttl=Duration.seconds(60),
                    max_ttl=Duration.seconds(60),
                    enable_accept_encoding_gzip=True,
                    enable_accept_encoding_brotli=True,
                ),
                response_headers_policy=self._headers("PageHeaders", stage, page.policy(html or bundle.NOT_BUILT)),
            ),
            additional_behaviors=dict.fromkeys(API_PATHS, to_api),
        )
        # The API knows a new secret before CloudFront sends it.
        self.distribution.node.add_dependency(functions.by_name["authorizer"], functions.by_name["admin"])
        role = functions.by_name["deploy"].role
        assert role is not None
        put = iam.Policy(
            self,
            "UploadPolicy",
            roles=[role],
            statements=[iam.PolicyStatement(actions=["s3:PutObject"], resources=[bucket.arn_for_objects("index.html")])],
        )
        upload = CustomResource(
            self,
            "Upload",
            service_token=functions.by_name["deploy"].function_arn,
            resource_type="Custom::TidemillPage",
            properties={"Bucket": bucket.bucket_name, "Digest": bundle.text_digest(html or bundle.NOT_BUILT)},
            removal_policy=RemovalPolicy.RETAIN,
            service_timeout=LONGEST,
        )
        upload.node.add_dependency(put)
        self.address = stage.domain or self.distribution.distribution_domain_name

    def _headers(self, name: str, stage: Stage, policy: str | None) -> cloudfront.ResponseHeadersPolicy:
        return cloudfront.ResponseHeadersPolicy(
            self,
            name,
            comment=f"tidemill {stage.name}",
            security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
                content_security_policy=cloudfront.ResponseHeadersContentSecurityPolicy(
                    content_security_policy=policy or "default-src 'none'; frame-ancestors 'none'", override=True
                ),
                strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                    access_control_max_age=Duration.days(730), include_subdomains=True, override=True
                ),
                content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True),
                referrer_policy=cloudfront.ResponseHeadersReferrerPolicy(
                    referrer_policy=cloudfront.HeadersReferrerPolicy.NO_REFERRER, override=True
                ),
                frame_options=cloudfront.ResponseHeadersFrameOptions(frame_option=cloudfront.HeadersFrameOption.DENY, override=True),
            ),
        )
