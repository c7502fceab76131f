// fulcio-server serves Fulcio's own CA service (its API v2 by the gRPC gateway) with an authority made at start: a root
// and an intermediate, in memory. No certificate transparency log, no health or metrics port, one listener.
//
//	fulcio-server -listen 127.0.0.1:5555 -config fulcio.json -root root.pem
package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/sigstore/fulcio/pkg/ca"
	"github.com/sigstore/fulcio/pkg/ca/baseca"
	"github.com/sigstore/fulcio/pkg/config"
	pb "github.com/sigstore/fulcio/pkg/generated/protobuf"
	"github.com/sigstore/fulcio/pkg/server"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// withConfig hands the configuration to each call, as Fulcio's interceptor does.
type withConfig struct {
	pb.CAServer
	config *config.FulcioConfig
}

func (s withConfig) CreateSigningCertificate(ctx context.Context, in *pb.CreateSigningCertificateRequest) (*pb.SigningCertificate, error) {
	return s.CAServer.CreateSigningCertificate(config.With(ctx, s.config), in)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func certify(name string, issuer *x509.Certificate, issuerKey crypto.Signer) (*x509.Certificate, crypto.Signer) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(err)
	serial, err := cryptoutils.GenerateSerialNumber()
	must(err)
	made := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name, Organization: []string{"fulcio for tests"}},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if issuer == nil {
		issuer, issuerKey, made.MaxPathLen = made, key, 1
	} else {
		made.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
		made.MaxPathLenZero = true
	}
	der, err := x509.CreateCertificate(rand.Reader, made, issuer, key.Public(), issuerKey)
	must(err)
	parsed, err := x509.ParseCertificate(der)
	must(err)
	return parsed, key
}

func main() {
	listen := flag.String("listen", "127.0.0.1:5555", "address")
	configPath := flag.String("config", "", "Fulcio's own configuration: the issuers it believes")
	rootPath := flag.String("root", "", "where the root certificate is written")
	flag.Parse()

	issuers, err := config.Load(*configPath)
	must(err)
	root, rootKey := certify("root", nil, nil)
	intermediate, key := certify("intermediate", root, rootKey)
	authority := &baseca.BaseCA{SignerWithChain: &ca.SignerCerts{Signer: key, Certs: []*x509.Certificate{intermediate, root}}}
	pem, err := cryptoutils.MarshalCertificateToPEM(root)
	must(err)

	mux := runtime.NewServeMux()
	service := withConfig{server.NewGRPCCAServer(nil, authority, server.NewIssuerPool(issuers)), issuers}
	must(pb.RegisterCAHandlerServer(context.Background(), mux, service))
	must(os.WriteFile(*rootPath+".new", pem, 0o644))
	must(os.Rename(*rootPath+".new", *rootPath))
	log.Fatal(http.ListenAndServe(*listen, mux))
}
