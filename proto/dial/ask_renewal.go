package dial

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// renewLimit bounds one request for a newer certificate.
const renewLimit = 30 * time.Second

// AskRenewal asks the targets for the renewal that Renew wants, and shows them the present
// certificate in dir.
func AskRenewal(ctx context.Context, targets []string, dir string) func(request []byte) (der []byte, err error) {
	return func(request []byte) ([]byte, error) {
		conn, err := Dial(targets, dir)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(ctx, renewLimit)
		defer cancel()
		answer, err := pb.NewControllerClient(conn).RenewCertificate(ctx, &pb.RenewCertificateRequest{Request: request})
		if err != nil {
			return nil, errors.New("ask for it: " + status.Convert(err).Message())
		}
		return answer.GetCertificate(), nil
	}
}
